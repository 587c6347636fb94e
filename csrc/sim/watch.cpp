// Watches what blocks of one launch read and write in global memory, where files of kernels are compiled with
// -fsanitize=thread: its calls end here, in place of ThreadSanitizer. Test-only.
//
// Blocks run one after another. What two of them write, or one writes and another reads, without atomics
// depends on their order on a device, whatever the order was here. A read of what others update by atomics
// may be stale, and is allowed: kernels look at a cell before they claim it. So is a read of what a block has
// written before it called __threadfence and then updated a word by an atomic operation, once the reader has
// updated that word as well. A kernel that begins early neither writes nor reads what the one ahead writes
// before it has waited for that.
#include <dlfcn.h>
#include <stdio.h>

#include <algorithm>
#include <unordered_map>

#include "machine.h"

namespace valor_sim {
namespace {

constexpr uint32_t kNone = 0xffffffffu, kSeveral = 0xfffffffeu;

// Blocks that have made each kind of access to a byte.
struct Byte {
  uint32_t writer = kNone, reader = kNone, updater = kNone;
  uint64_t written = 0;  // when
};

using Times = std::unordered_map<uint32_t, uint64_t>;  // by block

// What is known to have happened before what the block that runs does.
class Order {
 public:
  void fence(uint32_t mine) { enter(mine), fenced_ = ++now_; }
  void update(uintptr_t word, uint32_t mine) {
    enter(mine);
    if (const auto found = released_.find(word); found != released_.end())
      for (const auto& [block, time] : found->second) seen_[block] = std::max(seen_[block], time);
    if (fenced_) released_[word][mine] = fenced_;
  }
  uint64_t write() { return ++now_; }
  bool shows(const Byte& byte, uint32_t mine) {
    enter(mine);
    const auto found = seen_.find(byte.writer);
    return found != seen_.end() && byte.written < found->second;
  }

 private:
  void enter(uint32_t mine) {
    if (mine != block_) block_ = mine, fenced_ = 0, seen_.clear();
  }

  uint64_t now_ = 0, fenced_ = 0;  // when the block has called its last fence
  uint32_t block_ = kNone;
  Times seen_;                                     // until when the block sees what others have written
  std::unordered_map<uintptr_t, Times> released_;  // by word, when those that updated it had fenced
};

Order& order() {
  static Order known;
  return known;
}

bool by_another(uint32_t block, uint32_t mine) { return block != kNone && block != mine; }
void note(uint32_t& block, uint32_t mine) { block = by_another(block, mine) ? kSeveral : mine; }

std::unordered_map<uintptr_t, Byte>& bytes() {
  static std::unordered_map<uintptr_t, Byte> seen;
  return seen;
}
std::unordered_map<uintptr_t, Byte>& bytes_ahead() {
  static std::unordered_map<uintptr_t, Byte> seen;
  return seen;
}

bool is_written_ahead(uintptr_t address) {
  const auto found = bytes_ahead().find(address);
  return found != bytes_ahead().end() && (found->second.writer != kNone || found->second.updater != kNone);
}

void access(const void* address, size_t size, bool writes, const void* caller) {
  Machine& machine = Machine::instance();
  if (!machine.watches(address)) return;
  const uint32_t mine = machine.block_number();
  if (machine.updating()) order().update(reinterpret_cast<uintptr_t>(address), mine);
  for (size_t i = 0; i < size; ++i) {
    const bool is_early = !machine.waited();
    if (is_early &&
        (writes || machine.updating() || is_written_ahead(reinterpret_cast<uintptr_t>(address) + i)))
      machine.early(caller);
    Byte& byte = bytes()[reinterpret_cast<uintptr_t>(address) + i];
    if (machine.updating()) {
      if (by_another(byte.writer, mine)) machine.conflict(caller);
      note(byte.updater, mine);
    } else if (writes) {
      if (by_another(byte.writer, mine) || by_another(byte.reader, mine) || by_another(byte.updater, mine))
        machine.conflict(caller);
      note(byte.writer, mine);
      byte.written = order().write();
    } else {
      if (by_another(byte.writer, mine) && !order().shows(byte, mine)) machine.conflict(caller);
      note(byte.reader, mine);
    }
  }
}

}  // namespace

void Machine::update(bool begins) { updating_ = begins; }
void Machine::fence() { order().fence(block_number()); }

void Machine::wait_for_kernel_ahead() { current_->waited = true; }

void Machine::end(Lane& lane) {
  if (!lane.waited) fail(lane, "ends before it has waited for the kernel ahead");
  wait(lane, Lane::kDone);
}

void Machine::conflict(const void* caller) {
  fail_at(caller, "reads or writes without an atomic operation what another block writes");
}

void Machine::early(const void* caller) {
  fail_at(caller, "writes, or reads what the kernel ahead writes, before it has waited for that");
}

void Machine::fail_at(const void* caller, const std::string& what) {
  Dl_info place = {};
  dladdr(caller, &place);
  const auto offset = static_cast<const char*>(caller) - static_cast<const char*>(place.dli_fbase);
  char text[32];
  snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(offset));
  fail(*current_, what + ", at " + text + " of " + (place.dli_fname ? place.dli_fname : "?"));
}

void forget_accesses(bool early) {
  if (early)
    bytes_ahead().swap(bytes());
  else
    bytes_ahead().clear();
  bytes().clear();
  order() = Order();
}

}  // namespace valor_sim

#define VALOR_SIM_CALL extern "C" __attribute__((visibility("hidden"))) void
#define VALOR_SIM_ACCESS(kind, bytes, writes)                               \
  VALOR_SIM_CALL __tsan_##kind##bytes(void* address) {                      \
    valor_sim::access(address, bytes, writes, __builtin_return_address(0)); \
  }                                                                         \
  VALOR_SIM_CALL __tsan_unaligned_##kind##bytes(void* address) {            \
    valor_sim::access(address, bytes, writes, __builtin_return_address(0)); \
  }                                                                         \
  VALOR_SIM_CALL __tsan_volatile_##kind##bytes(void* address) {             \
    valor_sim::access(address, bytes, writes, __builtin_return_address(0)); \
  }
VALOR_SIM_ACCESS(read, 1, false)
VALOR_SIM_ACCESS(read, 2, false)
VALOR_SIM_ACCESS(read, 4, false)
VALOR_SIM_ACCESS(read, 8, false)
VALOR_SIM_ACCESS(read, 16, false)
VALOR_SIM_ACCESS(write, 1, true)
VALOR_SIM_ACCESS(write, 2, true)
VALOR_SIM_ACCESS(write, 4, true)
VALOR_SIM_ACCESS(write, 8, true)
VALOR_SIM_ACCESS(write, 16, true)
VALOR_SIM_CALL __tsan_read_range(void* address, size_t size) {
  valor_sim::access(address, size, false, __builtin_return_address(0));
}
VALOR_SIM_CALL __tsan_write_range(void* address, size_t size) {
  valor_sim::access(address, size, true, __builtin_return_address(0));
}
VALOR_SIM_CALL __tsan_func_entry(void*) {}
VALOR_SIM_CALL __tsan_func_exit() {}
VALOR_SIM_CALL __tsan_init() {}
VALOR_SIM_CALL __tsan_vptr_update(void**, void*) {}
VALOR_SIM_CALL __tsan_vptr_read(void**) {}
