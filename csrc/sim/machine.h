// A CUDA device on one CPU thread: blocks run one after another, a block's threads are fibres. Test-only.
// What every kernel's file would compile again is in machine.cpp.
#pragma once
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "fibres.h"

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  uint64_t count() const { return static_cast<uint64_t>(x) * y * z; }
  dim3 at(uint64_t index) const {
    return dim3(static_cast<unsigned>(index % x), static_cast<unsigned>(index / x % y),
                static_cast<unsigned>(index / x / y));
  }
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace valor_sim {

constexpr int kWarpSize = 32;
// Of compute capability 8.6, but for the number of multiprocessors.
constexpr int64_t kMultiprocessors = 2, kSharedOfMultiprocessor = 100 << 10;
constexpr int64_t kSharedReserved = 1 << 10, kSharedOfBlock = 99 << 10;
constexpr int64_t kSharedUnasked = 48 << 10;  // without cudaFuncAttributeMaxDynamicSharedMemorySize
enum Status : int32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kInvalidConfiguration = 9,
  kMisalignedAddress = 716,
  kLaunchFailure = 719
};

// A call in the source, or an access to memory.
struct Place {
  const char* what;
  const char* file;
  int line;
  bool operator==(const Place& other) const {
    return line == other.line && same(what, other.what) && same(file, other.file);
  }
  static bool same(const char* a, const char* b) { return a == b || strcmp(a, b) == 0; }
  std::string text() const { return std::string(what) + " (" + file + ":" + std::to_string(line) + ")"; }
};

struct Lane {
  enum State { kReady, kAtWarp, kAtBlock, kDone };
  Fibre fibre;
  State state;
  int index;  // in the block, x fastest
  Place place;
  uint32_t mask;             // lanes of the warp that the call names
  uint64_t value;            // what this lane brings
  uint64_t seen[kWarpSize];  // what the lanes of `group` brought
  uint32_t group;            // lanes that took part
  bool waited;               // for the kernel ahead, or that one had ended
  int in_warp() const { return index % kWarpSize; }
  uint32_t bit() const { return 1u << in_warp(); }
};

// A kernel and its arguments, which outlive the launch.
struct Body {
  void (*run)(const void*);
  const void* call;
  void operator()() const { run(call); }
};

class Machine {
 public:
  static Machine& instance();

  int32_t launch(const char* name, const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                 size_t parameter_bytes, Body body);

  // The next launch may begin before the one ahead of it has ended: each thread has to wait for that one.
  void begin_early() { next_early_ = true; }
  void wait_for_kernel_ahead();

  // Lets blocks of a kernel take so many bytes of dynamic shared memory.
  int32_t allow_shared(const void* kernel, int64_t bytes);

  // Whether launches return at once, so that the time of host code is seen: they are checked and named, and
  // no lane runs. What a kernel would have written is as it was.
  void skip(bool launches) { skipping_ = launches; }
  bool skipping() const { return skipping_; }

  // A copy to the host. While launches are skipped it brings what the last one of as many bytes brought
  // before, so that host code goes the way that real numbers led it.
  void read_back(void* host, const void* device, size_t bytes);

  const char* error() const { return error_.c_str(); }
  void* dynamic_shared() { return shared_.get(); }

  // Called by a kernel's thread: waits for the lanes in mask to make the same call, then sees what they
  // brought.
  const Lane& warp_collective(const Place& place, uint32_t mask, uint64_t value);

  // What a lane of the collective at place brought; fails where it took no part.
  uint64_t brought(const Lane& lane, int source, const Place& place);

  void block_barrier(const Place& place);

  // Called where a kernel declares a shared variable, in which each block finds garbage. A device would
  // refuse the launch of too many; here only the declarations that a thread reaches are known.
  void declare_shared(void* variable, size_t bytes);

  // For csrc/sim/watch.cpp: whether a thread of a kernel would share what lies at an address with other
  // blocks, which block it is of, and whether it makes an atomic operation.
  bool watches(const void* address) const;
  uint32_t block_number() const { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
  bool updating() const { return updating_; }
  bool waited() const { return current_->waited; }
  void update(bool begins);  // not inline: the compiler would take it for a store that nobody reads
  void fence();              // its thread calls __threadfence
  // Called there for an access of which another block makes one as well.
  [[noreturn]] void conflict(const void* caller);
  [[noreturn]] void early(const void* caller);  // likewise for one that has to wait for the kernel ahead

  // Called where a kernel reads or writes `bytes` at an address that is no multiple of them.
  [[noreturn]] void misaligned(const Place& place, const void* address, size_t bytes);

 private:
  [[noreturn]] void fail(Lane& lane, const std::string& what, int32_t status = kLaunchFailure);
  int32_t reject(int32_t status, const std::string& why);
  void seed();
  std::vector<uint64_t> order_of(uint64_t count);
  std::vector<uint64_t> order_of_blocks(uint64_t count);
  static void entry();
  void run_block(const dim3& block);
  bool run_ready_lanes();
  void wait(Lane& lane, Lane::State state);
  void end(Lane& lane);
  [[noreturn]] void fail_at(const void* caller, const std::string& what);
  void release();
  void release_warp(int first);
  void exchange(int first, uint32_t group);
  bool same_place() const;
  std::string thread_text(const Lane& lane) const;
  std::string stuck_text() const;

  std::mutex mutex_;
  std::string name_, error_, pending_;
  Body body_ = {};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<unsigned char[]> shared_;
  size_t shared_bytes_ = 0, most_shared_ = 0;
  std::map<const void*, int64_t> allowed_;  // by kernel
  struct Shared {
    size_t bytes;
    uint64_t block;  // the last that has declared it
  };
  std::map<const char*, Shared> statics_;  // shared variables that this launch has declared
  uint64_t blocks_ = 0;                    // so many have begun to run
  int32_t pending_status_ = kLaunchFailure;
  Lane* current_ = nullptr;
  int count_ = 0;
  bool shuffled_ = false, updating_ = false;
  bool early_ = false, next_early_ = false;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
  bool skipping_ = false;
  std::map<size_t, std::vector<unsigned char>> brought_;  // by read_back, the last of each size
};

// Of csrc/sim/watch.cpp, at each launch; what the one before wrote is kept for one that begins early.
void forget_accesses(bool early);

// Parameters follow one another, each aligned as its type.
template <class... Parameters>
constexpr size_t parameter_bytes() {
  size_t bytes = 0;
  ((bytes =
        (bytes + alignof(Parameters) - 1) / alignof(Parameters) * alignof(Parameters) + sizeof(Parameters)),
   ...);
  return bytes;
}

template <class... Parameters, class... Arguments>
int32_t launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
               void*, Arguments... arguments) {
  const auto call = [&] { kernel(arguments...); };
  const Body body = {[](const void* made) { (*static_cast<decltype(call)*>(made))(); }, &call};
  return Machine::instance().launch(name, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
                                    parameter_bytes<Parameters...>(), body);
}

template <class... Parameters>
int32_t allow_shared(void (*kernel)(Parameters...), int64_t bytes) {
  return Machine::instance().allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

inline void* dynamic_shared() { return Machine::instance().dynamic_shared(); }

}  // namespace valor_sim
