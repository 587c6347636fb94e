// A CUDA device on one CPU thread: blocks run one after another, a block's threads are fibres. Test-only.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
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

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

// Static shared variables lie in one section, so that each block can find garbage there, as on a device.
extern "C" {
extern char __start_valor_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_valor_shared[] __attribute__((weak, visibility("hidden")));
}

namespace valor_sim {

constexpr int kWarpSize = 32;
enum Status : int32_t { kSuccess = 0, kInvalidValue = 1, kInvalidConfiguration = 9, kLaunchFailure = 719 };

// A collective call in the source.
struct Place {
  const char* what;
  const char* file;
  int line;
  bool operator==(const Place& other) const {
    return line == other.line && strcmp(what, other.what) == 0 && strcmp(file, other.file) == 0;
  }
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
  int in_warp() const { return index % kWarpSize; }
  uint32_t bit() const { return 1u << in_warp(); }
};

struct Failure : std::runtime_error {
  Failure(int32_t status, const std::string& what) : std::runtime_error(what), status(status) {}
  int32_t status;
};

class Machine {
 public:
  static Machine& instance() {
    static Machine machine;
    return machine;
  }

  int32_t launch(const char* name, dim3 grid, dim3 block, size_t shared_bytes, size_t parameter_bytes,
                 std::function<void()> body) {
    std::lock_guard<std::mutex> lock(mutex_);
    error_.clear();
    name_ = name;
    if (!fits(grid, block))
      return reject(kInvalidConfiguration, "grid or block is outside the device's limits");
    if (shared_bytes > kSharedBytes)
      return reject(kInvalidValue, "more than 48 KiB of dynamic shared memory");
    if (parameter_bytes > kParameterBytes)
      return reject(kInvalidValue, std::to_string(parameter_bytes) +
                                       " bytes of parameters, of which there is room for " +
                                       std::to_string(kParameterBytes));
    gridDim = grid;
    blockDim = block;
    body_ = std::move(body);
    shared_bytes_ = shared_bytes;
    statics_.clear();
    try {
      seed();
      for (uint64_t index : order_of(grid.count())) run_block(grid.at(index));
    } catch (const Failure& failure) {
      lanes_.clear();  // they stopped in the middle of the kernel
      return reject(failure.status, failure.what());
    }
    return kSuccess;
  }

  const char* error() const { return error_.c_str(); }
  void* dynamic_shared() { return shared_.get(); }
  Lane& current() { return *current_; }

  // Called by a kernel's thread: waits for the lanes in mask to make the same call, then sees what they
  // brought.
  Lane& warp_collective(const Place& place, uint32_t mask, uint64_t value) {
    Lane& lane = *current_;
    lane.place = place;
    lane.mask = mask;
    lane.value = value;
    if (!(mask & lane.bit())) fail(lane, "is not in the mask that it passes to " + place.text());
    wait(lane, Lane::kAtWarp);
    return lane;
  }

  void block_barrier(const Place& place) {
    current_->place = place;
    wait(*current_, Lane::kAtBlock);
  }

  // Called where a kernel declares a shared variable. A device would refuse the launch; here only the
  // declarations that a thread reaches are known.
  void declare_shared(const void* variable, size_t bytes) {
    statics_[variable] = bytes;
    size_t total = 0;
    for (const auto& each : statics_) total += (each.second + 15) / 16 * 16;
    if (total + shared_bytes_ > kSharedBytes)
      fail(current(),
           "finds " + std::to_string(total) + " bytes of static and " + std::to_string(shared_bytes_) +
               " of dynamic shared memory, together more than 48 KiB",
           kInvalidValue);
  }

  [[noreturn]] void fail(Lane& lane, const std::string& what, int32_t status = kLaunchFailure) {
    pending_ = thread_text(lane) + " " + what;
    pending_status_ = status;
    lane.fibre.suspend();
    abort();  // the scheduler drops the lanes of a failed launch
  }

 private:
  static constexpr size_t kSharedBytes = 48 << 10;  // without cudaFuncAttributeMaxDynamicSharedMemorySize
  static constexpr size_t kParameterBytes = 4096;   // for every toolkit and driver; CUDA 12.1 raises it
  static constexpr unsigned char kGarbage = 0xa5;

  static bool fits(const dim3& grid, const dim3& block) {
    return block.count() >= 1 && block.count() <= 1024 && block.z <= 64 && grid.count() >= 1 &&
           grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
  }

  int32_t reject(int32_t status, const std::string& why) {
    error_ = name_ + ": " + why;
    return status;
  }

  // VALOR_SIM_SEED permutes the order of blocks and lanes and lets lanes drift apart, which exposes races.
  void seed() {
    const char* value = getenv("VALOR_SIM_SEED");
    shuffled_ = value != nullptr && *value != '\0';
    if (shuffled_) random_.seed(strtoull(value, nullptr, 10));
  }

  std::vector<uint64_t> order_of(uint64_t count) {
    std::vector<uint64_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    if (shuffled_) std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  static void entry() {
    Machine& machine = instance();
    Lane& lane = *machine.current_;
    lane.fibre.enter();
    for (;;) {
      machine.body_();
      machine.wait(lane, Lane::kDone);
    }
  }

  void run_block(const dim3& block) {
    blockIdx = block;
    spoil_shared();
    count_ = static_cast<int>(blockDim.count());
    while (static_cast<int>(lanes_.size()) < count_) {
      lanes_.push_back(std::make_unique<Lane>());
      lanes_.back()->index = static_cast<int>(lanes_.size()) - 1;
      lanes_.back()->fibre.begin(entry);
    }
    for (int i = 0; i < count_; ++i) lanes_[i]->state = Lane::kReady;
    while (run_ready_lanes()) release();
  }

  // Not memset: under AddressSanitizer the section holds poisoned red zones between its variables.
  __attribute__((no_sanitize("address"))) void spoil_shared() {
    for (volatile char* byte = __start_valor_shared; byte != __stop_valor_shared; ++byte) *byte = kGarbage;
    shared_.reset(new unsigned char[shared_bytes_]);
    memset(shared_.get(), kGarbage, shared_bytes_);
  }

  // Runs every ready lane to its next collective; false when all are done.
  bool run_ready_lanes() {
    bool waiting = false;
    for (uint64_t index : order_of(count_)) {
      Lane& lane = *lanes_[index];
      const bool held_back = shuffled_ && random_() % 4 == 0;
      if (lane.state == Lane::kReady && !held_back) {
        current_ = &lane;
        threadIdx = blockDim.at(index);
        lane.fibre.resume();
        if (!pending_.empty()) throw Failure(pending_status_, std::exchange(pending_, std::string()));
      }
      waiting |= lane.state != Lane::kDone;
    }
    return waiting;
  }

  void wait(Lane& lane, Lane::State state) {
    lane.state = state;
    lane.fibre.suspend();
  }

  void release() {
    for (int first = 0; first < count_; first += kWarpSize) release_warp(first);
    int at_barrier = 0, live = 0, ready = 0;
    for (int i = 0; i < count_; ++i) {
      at_barrier += lanes_[i]->state == Lane::kAtBlock;
      ready += lanes_[i]->state == Lane::kReady;
      live += lanes_[i]->state != Lane::kDone;
    }
    if (ready > 0 || live == 0) return;
    if (at_barrier < live || !same_place()) throw Failure(kLaunchFailure, stuck_text());
    for (int i = 0; i < count_; ++i)
      if (lanes_[i]->state == Lane::kAtBlock) lanes_[i]->state = Lane::kReady;
  }

  // Exited lanes count as arrived, as on a device of compute capability 7.0 or later.
  void release_warp(int first) {
    const int end = std::min(first + kWarpSize, count_);
    for (int i = first; i < end; ++i) {
      const Lane& lane = *lanes_[i];
      if (lane.state != Lane::kAtWarp) continue;
      uint32_t live = 0, arrived = 0;
      for (int j = first; j < end; ++j) {
        const Lane& other = *lanes_[j];
        if (other.state != Lane::kDone) live |= other.bit();
        if (other.state == Lane::kAtWarp && other.mask == lane.mask && other.place == lane.place)
          arrived |= other.bit();
      }
      if ((lane.mask & live & ~arrived) == 0) exchange(first, arrived);
    }
  }

  void exchange(int first, uint32_t group) {
    uint64_t values[kWarpSize] = {};
    for (int j = 0; j < kWarpSize; ++j)
      if (group >> j & 1) values[j] = lanes_[first + j]->value;
    for (int j = 0; j < kWarpSize; ++j) {
      if (!(group >> j & 1)) continue;
      Lane& lane = *lanes_[first + j];
      memcpy(lane.seen, values, sizeof values);
      lane.group = group;
      lane.state = Lane::kReady;
    }
  }

  bool same_place() const {
    const Lane* first = nullptr;
    for (int i = 0; i < count_; ++i) {
      if (lanes_[i]->state == Lane::kDone) continue;
      if (first && !(first->place == lanes_[i]->place)) return false;
      if (!first) first = lanes_[i].get();
    }
    return true;
  }

  std::string thread_text(const Lane& lane) const {
    return "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
           std::to_string(blockIdx.z) + ") thread " + std::to_string(lane.index);
  }

  std::string stuck_text() const {
    std::string text = "threads wait for others that never come:";
    std::vector<Place> told;
    for (int i = 0; i < count_; ++i) {
      const Lane& lane = *lanes_[i];
      if (lane.state == Lane::kDone || std::find(told.begin(), told.end(), lane.place) != told.end())
        continue;
      told.push_back(lane.place);
      text += (told.size() > 1 ? ", " : " ") + thread_text(lane) + " at " + lane.place.text();
    }
    return text;
  }

  std::mutex mutex_;
  std::string name_, error_, pending_;
  std::function<void()> body_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<unsigned char[]> shared_;
  size_t shared_bytes_ = 0;
  std::map<const void*, size_t> statics_;  // shared variables that this launch has declared
  int32_t pending_status_ = kLaunchFailure;
  Lane* current_ = nullptr;
  int count_ = 0;
  bool shuffled_ = false;
  std::mt19937_64 random_;
};

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
  return Machine::instance().launch(name, grid, block, shared_bytes, parameter_bytes<Parameters...>(),
                                    [=] { kernel(arguments...); });
}

inline void* dynamic_shared() { return Machine::instance().dynamic_shared(); }

}  // namespace valor_sim

// Why the last launch failed; empty when it did not.
extern "C" __attribute__((visibility("default"), used)) inline const char* valor_sim_error() {
  return valor_sim::Machine::instance().error();
}
