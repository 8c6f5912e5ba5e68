// Ctrl-C in native loops: they poll, and unwind once a signal handler has raised.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace hf_scaffold {

// Thrown once a handler has raised. Python's exception is set by then, and Cython's `except +` keeps it.
class Interrupted : public std::exception {
public:
    const char* what() const noexcept override { return "interrupted"; }
};

// One per native call, created on the calling thread.
class Interrupt {
public:
    // Runs pending signal handlers; true if one raised.
    using RunHandlers = bool (*)();

    explicit Interrupt(RunHandlers run_handlers) : run_handlers_(run_handlers), owner_(std::this_thread::get_id()) {}

    // Throws Interrupted if the call is to end. Call it every millisecond or so, from any thread: the calling thread
    // checks for signals ten times a second, from 0.1 s on; the others only see its result.
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

// For loops of short steps on one thread: polls every 4,096 steps. A null interrupt is never polled.
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
