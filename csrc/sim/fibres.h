// Fibres: many stacks on one thread, switched by hand. Test-only.
#pragma once
#include <setjmp.h>
#include <stddef.h>
#include <ucontext.h>

#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define VALOR_SIM_ASAN 1
#else
#define VALOR_SIM_ASAN 0
#endif

namespace valor_sim {

// A fibre starts on its own stack by setcontext and is then switched by _setjmp and _longjmp: swapcontext
// makes two system calls a switch (450 ns against 20 ns), and a kernel switches at every collective.
class Fibre {
 public:
  using Entry = void (*)();

  // Prepares to run entry, which must never return.
  void begin(Entry entry) {
    stack_.reset(new char[kStackBytes]);  // left unwritten: pages that are never used cost nothing
    getcontext(&start_);
    start_.uc_stack.ss_sp = stack_.get();
    start_.uc_stack.ss_size = kStackBytes;
    start_.uc_link = nullptr;
    makecontext(&start_, entry, 0);
    started_ = false;
  }

  // Called on the scheduler's stack: runs the fibre until it suspends.
  __attribute__((noinline)) void resume() {
    leave(&scheduler_fake_, stack_.get(), kStackBytes);
    if (_setjmp(scheduler_) == 0) {
      if (started_) _longjmp(here_, 1);
      started_ = true;
      setcontext(&start_);
    }
    arrive(scheduler_fake_, nullptr, nullptr);
  }

  // Called by the fibre: first thing in its entry, and at each wait.
  void enter() { arrive(nullptr, &scheduler_stack_, &scheduler_bytes_); }
  __attribute__((noinline)) void suspend() {
    leave(&fake_, scheduler_stack_, scheduler_bytes_);
    if (_setjmp(here_) == 0) _longjmp(scheduler_, 1);
    arrive(fake_, &scheduler_stack_, &scheduler_bytes_);
  }

 private:
  static constexpr size_t kStackBytes = VALOR_SIM_ASAN ? 1 << 18 : 1 << 17;  // red zones widen frames

  // AddressSanitizer has to know which stack is in use.
#if VALOR_SIM_ASAN
  static void leave(void** fake, const void* bottom, size_t bytes) {
    __sanitizer_start_switch_fiber(fake, bottom, bytes);
  }
  static void arrive(void* fake, const void** bottom, size_t* bytes) {
    __sanitizer_finish_switch_fiber(fake, bottom, bytes);
  }
#else
  static void leave(void**, const void*, size_t) {}
  static void arrive(void*, const void**, size_t*) {}
#endif

  std::unique_ptr<char[]> stack_;
  ucontext_t start_;
  jmp_buf here_, scheduler_;
  bool started_ = false;
  void *fake_ = nullptr, *scheduler_fake_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_bytes_ = 0;
};

}  // namespace valor_sim
