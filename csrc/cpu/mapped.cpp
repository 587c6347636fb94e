// Mapped files that may be cut while they are read: pages that are gone read as zeros instead of ending the
// process.
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "../core/platform.h"
#include "guard.h"

namespace valor {
namespace {

// One mapping; free while `end` is 0.
struct Guard {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> lost{false};
};

constexpr int kGuards = 64;
Guard guards[kGuards];
int in_use = 0;
std::mutex lock;  // of `in_use` and of who owns a guard; the handler reads atomics alone
struct sigaction previous;
std::atomic<bool> passing{false};
const uintptr_t page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

bool replace_page(uintptr_t at) {
  for (Guard& guard : guards) {
    if (at < guard.begin.load() || at >= guard.end.load()) continue;
    guard.lost = true;
    void* const page = reinterpret_cast<void*>(at / page_size * page_size);
    return mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

// Any other signal goes to whom it would have gone to. One of them that sends the signal on ends here, by
// default.
void pass_on(int number, siginfo_t* info, void* context) {
  const bool is_fault = info->si_code > 0;  // not sent by a process
  const bool is_ignored = !(previous.sa_flags & SA_SIGINFO) && previous.sa_handler == SIG_IGN;
  const bool has_handler =
      (previous.sa_flags & SA_SIGINFO) || (!is_ignored && previous.sa_handler != SIG_DFL);
  if (!is_fault && is_ignored) return;
  if (!has_handler || passing.exchange(true)) {
    signal(number, SIG_DFL);
    if (!is_fault) raise(number);  // the instruction of a fault is run again, and faults
    return;
  }
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(number, info, context);
  } else {
    previous.sa_handler(number);
  }
  passing = false;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int kept = errno;
  const bool is_fault = info->si_code > 0;  // not sent by a process
  if (!is_fault || !replace_page(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(number, info, context);
  errno = kept;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_bus_error;
}

void install() {
  struct sigaction now;
  if (sigaction(SIGBUS, nullptr, &now) != 0 || is_ours(now)) return;
  previous = now;
  struct sigaction ours = {};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, nullptr);
}

void uninstall() {
  struct sigaction now;
  if (sigaction(SIGBUS, nullptr, &now) == 0 && is_ours(now)) sigaction(SIGBUS, &previous, nullptr);
}

}  // namespace
}  // namespace valor

using namespace valor;

// Guards the mapping [data, data + size) until valor_unguard. slot: what to unguard it by; -1 when too many
// are guarded.
VALOR_API int32_t valor_guard(const char* data, int64_t size, int64_t* slot) {
  return valor::guarded([&] {
    const std::lock_guard<std::mutex> held(lock);
    *slot = -1;
    for (int k = 0; k < kGuards; ++k) {
      if (guards[k].end.load() != 0) continue;
      guards[k].lost = false;
      guards[k].begin = reinterpret_cast<uintptr_t>(data);
      guards[k].end = reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(size);
      ++in_use;
      install();
      *slot = k;
      break;
    }
  });
}

// lost: 1 when a page of the mapping was gone and read as zeros.
VALOR_API int32_t valor_unguard(int64_t slot, int64_t* lost) {
  return valor::guarded([&] {
    const std::lock_guard<std::mutex> held(lock);
    *lost = guards[slot].lost.load();
    guards[slot].end = 0;
    guards[slot].begin = 0;
    if (--in_use == 0) uninstall();
  });
}
