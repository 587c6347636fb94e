// Throws on purpose inside a guarded loop over the pool.
#include <atomic>
#include <chrono>
#include <thread>

#include "../../csrc/core/platform.h"
#include "../../csrc/cpu/guard.h"
#include "../../csrc/cpu/pool.h"

static std::atomic<int64_t> ran;

// Runs [0, count) one by one. Element `at` throws by `kind`: nothing, bad_alloc, length_error, another, int.
VALOR_API int32_t probe_throw(int64_t count, int64_t at, int64_t kind, int64_t threads) {
  return valor::guarded([&] {
    ran = 0;
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i, ++ran) {
        if (i != at) continue;
        if (kind == 1) throw std::bad_alloc();
        if (kind == 2) throw std::length_error("");
        if (kind == 3) throw std::runtime_error("");
        if (kind == 4) throw 1;
      }
    };
    valor::parallel_for(count, 1, static_cast<int>(threads), body);
  });
}

VALOR_API int64_t probe_ran() { return ran; }

// The caller's own chunk waits until a helper has begun one, which throws.
VALOR_API int32_t probe_throw_on_helper(int32_t throws) {
  return valor::guarded([&] {
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> helped{false};
    auto body = [&](int64_t, int64_t) {
      if (std::this_thread::get_id() != caller) {
        helped = true;
        if (throws) throw std::bad_alloc();
      }
      while (!helped) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    valor::parallel_for(2, 1, 2, body);
  });
}
