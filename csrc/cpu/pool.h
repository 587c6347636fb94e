// A pool of native threads that help with a loop. The calling thread always works itself and never waits for
// a helper that has not started. Waking a sleeping thread takes 50 us and more, as long as a batch of 16
// images, so a helper looks out for the next loop for kSpin before it sleeps (OpenMP's threads do so for
// milliseconds).
#pragma once
#include <pthread.h>
#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "memory.h"

namespace valor {

class Pool {
 public:
  using Body = void (*)(void* context, int64_t begin, int64_t end);

  static Pool& instance() {
    static std::once_flag once;
    std::call_once(once, [] {
      current() = new (room()) Pool;
      // A forked child has none of the parent's threads: it starts with an empty pool, in the same place
      // since memory may be out.
      pthread_atfork(nullptr, nullptr, [] { current() = new (room()) Pool; });
    });
    return *current();
  }

  // Runs body over [0, count) in chunks of `grain`, on at most `threads` threads. What a body throws on any
  // of them ends the loop and is thrown here.
  void run(int64_t count, int64_t grain, int threads, Body body, void* context) {
    const int64_t chunks = (count + grain - 1) / grain;
    const int helpers = static_cast<int>(std::min<int64_t>(threads, chunks)) - 1;
    if (helpers <= 0) {
      if (count > 0) body(context, 0, count);
      return;
    }
    auto loop = std::make_shared<Loop>(count, grain, body, context);
    offer(loop, helpers);
    loop->work();
    withdraw(loop);
    loop->wait();
    if (loop->failure) std::rethrow_exception(loop->failure);
  }

 private:
  struct Loop {
    Loop(int64_t count, int64_t grain, Body body, void* context)
        : count(count), grain(grain), body(body), context(context) {}
    void work() noexcept {
      try {
        for (;;) {
          const int64_t begin = next.fetch_add(grain);
          if (begin >= count) return;
          body(context, begin, std::min(begin + grain, count));
        }
      } catch (...) {
        next = count;  // nobody begins another chunk
        std::lock_guard<std::mutex> lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
    void wait() {
      std::unique_lock<std::mutex> lock(mutex);
      idle.wait(lock, [this] { return active == 0; });
    }
    const int64_t count, grain;
    const Body body;
    void* const context;
    MemoryCount* const memory = memory_count();  // of the caller: what helpers take is counted with its own
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    std::condition_variable idle;
    int active = 0;              // helpers inside work(), guarded by mutex
    std::exception_ptr failure;  // the first that a body threw, guarded by mutex
    int wanted = 0;              // helpers that may still join, guarded by the pool's mutex
  };

  static constexpr std::chrono::microseconds kSpin{200};

  static void* room() {
    alignas(Pool) static unsigned char bytes[sizeof(Pool)];  // never destroyed: helpers wait in it to the end
    return bytes;
  }

  static Pool*& current() {
    static Pool* pool = nullptr;
    return pool;
  }

  void offer(const std::shared_ptr<Loop>& loop, int helpers) {
    std::lock_guard<std::mutex> lock(mutex_);
    loop->wanted = helpers;
    loops_.push_back(loop);
    waiting_.store(loops_.size(), std::memory_order_release);
    try {
      for (; started_ < helpers; ++started_) std::thread(&Pool::serve, this).detach();
    } catch (const std::exception&) {  // no thread, or no memory for one: the caller works alone
    }
    if (asleep_ > 0) wake_.notify_all();
  }

  void withdraw(const std::shared_ptr<Loop>& loop) {
    std::lock_guard<std::mutex> lock(mutex_);
    loops_.erase(std::remove(loops_.begin(), loops_.end(), loop), loops_.end());
    waiting_.store(loops_.size(), std::memory_order_release);
  }

  // Waits a little for a loop to help with.
  void look_out() const {
    const auto until = std::chrono::steady_clock::now() + kSpin;
    while (waiting_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < until)
      for (int i = 0; i < 16; ++i) pause();
  }

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      ++asleep_;
      wake_.wait(lock, [this] { return !loops_.empty(); });
      --asleep_;
      std::shared_ptr<Loop> loop = loops_.front();
      if (--loop->wanted <= 0) loops_.erase(loops_.begin());
      waiting_.store(loops_.size(), std::memory_order_release);
      {
        std::lock_guard<std::mutex> guard(loop->mutex);
        ++loop->active;
      }
      lock.unlock();
      {
        CountsFor caller(loop->memory);
        loop->work();
      }
      {
        std::lock_guard<std::mutex> guard(loop->mutex);
        --loop->active;
      }
      loop->idle.notify_all();
      look_out();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::atomic<size_t> waiting_{0};  // loops that want helpers, for a look without the mutex
  int started_ = 0, asleep_ = 0;    // guarded by mutex_
};

// Calls fn(begin, end) over chunks of [0, count).
template <class Fn>
void parallel_for(int64_t count, int64_t grain, int threads, Fn& fn) {
  Pool::instance().run(
      count, grain, threads,
      [](void* context, int64_t begin, int64_t end) { (*static_cast<Fn*>(context))(begin, end); }, &fn);
}

}  // namespace valor
