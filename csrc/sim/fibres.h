// Fibres: many stacks on one thread, switched by hand. Test-only.
#pragma once
#include <stddef.h>

#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define VALOR_SIM_ASAN 1
#else
#define VALOR_SIM_ASAN 0
#endif

namespace valor_sim {

#if defined(__x86_64__)
using Context = void*;  // stack pointer; what a call must preserve lies on that stack

// In machine.cpp: stores the registers that a call must preserve, and goes on where `to` was stored.
extern "C" __attribute__((visibility("hidden"))) void valor_sim_switch(Context* from, Context to);

inline void prepare(Context* context, char* stack, size_t bytes, void (*entry)()) {
  void** top = reinterpret_cast<void**>(stack + bytes / 16 * 16) - 8;  // stack is aligned to 16 bytes by new
  for (int i = 0; i < 6; ++i) top[i] = nullptr;                        // the registers
  top[6] = reinterpret_cast<void*>(entry);                             // where the switch returns to
  top[7] = nullptr;                                                    // and entry, which never does
  *context = top;
}
inline void switch_to(Context* from, Context* to) { valor_sim_switch(from, *to); }
#else
using Context = ucontext_t;

inline void prepare(Context* context, char* stack, size_t bytes, void (*entry)()) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
}
inline void switch_to(Context* from, Context* to) { swapcontext(from, to); }
#endif

// A kernel switches at every collective. swapcontext makes two system calls each time, and after a longjmp
// AddressSanitizer makes one and clears what it knows of a whole stack, hence the switch of our own.
class Fibre {
 public:
  using Entry = void (*)();
  static constexpr size_t kStackBytes = VALOR_SIM_ASAN ? 1 << 18 : 1 << 17;  // red zones widen frames

  // Prepares to run entry, which must never return.
  void begin(Entry entry) {
    stack_.reset(new char[kStackBytes]);  // left unwritten: pages that are never used cost nothing
    prepare(&here_, stack_.get(), kStackBytes, entry);
  }

  const char* stack() const { return stack_.get(); }

  // Called on the scheduler's stack: runs the fibre until it suspends.
  void resume() {
    leave(&scheduler_fake_, stack_.get(), kStackBytes);
    switch_to(&scheduler_, &here_);
    arrive(scheduler_fake_, nullptr, nullptr);
  }

  // Called by the fibre: first thing in its entry, and at each wait.
  void enter() { arrive(nullptr, &scheduler_stack_, &scheduler_bytes_); }
  void suspend() {
    leave(&fake_, scheduler_stack_, scheduler_bytes_);
    switch_to(&here_, &scheduler_);
    arrive(fake_, &scheduler_stack_, &scheduler_bytes_);
  }

 private:
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
  Context here_, scheduler_;
  void *fake_ = nullptr, *scheduler_fake_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_bytes_ = 0;
};

}  // namespace valor_sim
