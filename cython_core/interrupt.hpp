// Ctrl-C inside native loops: they poll, and unwind once a signal handler has raised.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace hf_scaffold {

// Thrown once a handler has raised: by then Python's exception is set, and what translates exceptions lets it pass.
class Interrupted : public std::exception {
public:
    const char* what() const noexcept override { return "interrupted"; }
};

// One for each native call, made on the thread that calls.
class Interrupt {
public:
    // Runs the signal handlers that are due; true if one raised.
    using RunHandlers = bool (*)();

    explicit Interrupt(RunHandlers run_handlers) : run_handlers_(run_handlers), owner_(std::this_thread::get_id()) {}

    // Throws Interrupted if the call is to end. For any thread, each millisecond or so: the one that called looks for
    // signals ten times a second, the first time after a tenth; the others only learn what it found.
    void poll() {
        if (raised_.load(std::memory_order_relaxed)) throw Interrupted();
        if (std::this_thread::get_id() != owner_) return;
        const Clock::time_point now = Clock::now();
        if (due_ == Clock::time_point{}) due_ = now + PERIOD;
        if (now < due_) return;
        if (run_handlers_()) {
            raised_.store(true, std::memory_order_relaxed);
            throw Interrupted();
        }
        due_ = Clock::now() + PERIOD;
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr Clock::duration PERIOD = std::chrono::milliseconds(100);

    RunHandlers run_handlers_;
    std::thread::id owner_;
    Clock::time_point due_{};
    std::atomic<bool> raised_{false};
};

// For a loop of short steps on one thread: polls at every 4,096th, if there is what to poll.
class Steps {
public:
    explicit Steps(Interrupt* interrupt) : interrupt_(interrupt) {}
    explicit Steps(Interrupt& interrupt) : interrupt_(&interrupt) {}

    void next() {
        if (--left_ == 0) {
            left_ = PERIOD;
            if (interrupt_ != nullptr) interrupt_->poll();
        }
    }

private:
    static constexpr unsigned PERIOD = 4096;

    Interrupt* interrupt_;
    unsigned left_ = PERIOD;
};

}  // namespace hf_scaffold
