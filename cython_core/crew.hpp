// Threads that share a piece of work with the thread that starts them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "interrupt.hpp"

namespace hf_scaffold {

class Crew {
public:
    Crew() = default;
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;
    // Waits for the threads, without polling: see to it that work() ends.
    ~Crew() {
        for (std::thread& thread : threads_) thread.join();
    }

    // Runs work() on n threads of its own, or on as many as the system has to give. Call it once.
    template <class Work>
    void start(std::size_t n, Work work) {
        const auto on_thread = [this, work] {
            guard(work);
            const std::lock_guard<std::mutex> lock(mutex_);
            --n_at_work_;
            ended_.notify_one();
        };
        try {
            while (threads_.size() < n) {
                threads_.emplace_back(on_thread);
                const std::lock_guard<std::mutex> lock(mutex_);
                ++n_at_work_;
            }
        } catch (const std::exception&) {
            // Out of threads or memory: those that started do the work.
        }
    }

    // Runs work() on this thread. finish() rethrows what it throws.
    template <class Work>
    void guard(const Work& work) {
        try {
            work();
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex_);
            thrown_ = std::current_exception();
        }
    }

    // Waits for the threads and rethrows what any of them threw. The work must poll, too.
    void finish(Interrupt& interrupt) {
        for (std::unique_lock<std::mutex> lock(mutex_); n_at_work_ != 0;) {
            ended_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(50));
            lock.unlock();
            guard([&] { interrupt.poll(); });
            lock.lock();
        }
        if (thrown_) std::rethrow_exception(thrown_);
    }

private:
    std::mutex mutex_;
    std::condition_variable ended_;
    std::exception_ptr thrown_;
    std::size_t n_at_work_ = 0;
    std::vector<std::thread> threads_;
};

// Runs work() on `n` threads, including the caller's, and rethrows what any of them threw. The caller's thread polls
// while it waits for the others; work() must poll, too.
template <class Work>
void run_on_threads(std::size_t n, Interrupt& interrupt, Work work) {
    if (n <= 1) {
        work();
        return;
    }
    Crew crew;
    crew.start(n - 1, [&] { work(); });
    crew.guard(work);
    crew.finish(interrupt);
}

}  // namespace hf_scaffold
