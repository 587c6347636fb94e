#include "machine.h"

#include <stdio.h>
#include <stdlib.h>

#include <numeric>
#include <stdexcept>
#include <utility>

dim3 threadIdx, blockIdx, blockDim, gridDim;

#if defined(__x86_64__)
asm(R"(
.pushsection .text
.hidden valor_sim_switch
.globl valor_sim_switch
.type valor_sim_switch, @function
valor_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size valor_sim_switch, . - valor_sim_switch
.popsection
)");
#endif

namespace valor_sim {
namespace {

constexpr size_t kParameterBytes = 4096;  // for every toolkit and driver; CUDA 12.1 raises it
constexpr unsigned char kGarbage = 0xa5;

struct Failure : std::runtime_error {
  Failure(int32_t status, const std::string& what) : std::runtime_error(what), status(status) {}
  int32_t status;
};

bool fits(const dim3& grid, const dim3& block) {
  return block.count() >= 1 && block.count() <= 1024 && block.z <= 64 && grid.count() >= 1 &&
         grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
}

}  // namespace

Machine& Machine::instance() {
  static Machine machine;
  return machine;
}

// Names of the kernels that were launched, a line each, until somebody asks for them.
static std::string& launched() {
  static std::string names;
  return names;
}

int32_t Machine::allow_shared(const void* kernel, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  error_.clear();
  name_ = "allow_shared";
  if (bytes < 0 || bytes > kSharedOfBlock)
    return reject(kInvalidValue, std::to_string(bytes) +
                                     " bytes of dynamic shared memory, of which there are " +
                                     std::to_string(kSharedOfBlock));
  allowed_[kernel] = bytes;
  return kSuccess;
}

int32_t Machine::launch(const char* name, const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                        size_t parameter_bytes, Body body) {
  std::lock_guard<std::mutex> lock(mutex_);
  error_.clear();
  name_ = name;
  launched().append(name_).push_back('\n');
  early_ = std::exchange(next_early_, false);
  updating_ = false;  // a launch may have failed within an atomic operation
  if (!fits(grid, block))
    return reject(kInvalidConfiguration, "grid or block is outside the device's limits");
  const auto allowed = allowed_.find(kernel);
  most_shared_ = std::max(kSharedUnasked, allowed == allowed_.end() ? 0 : allowed->second);
  if (shared_bytes > most_shared_)
    return reject(kInvalidValue,
                  "more than " + std::to_string(most_shared_ >> 10) + " KiB of dynamic shared memory");
  if (parameter_bytes > kParameterBytes)
    return reject(kInvalidValue, std::to_string(parameter_bytes) +
                                     " bytes of parameters, of which there is room for " +
                                     std::to_string(kParameterBytes));
  if (skipping_) return kSuccess;
  gridDim = grid;
  blockDim = block;
  body_ = body;
  shared_bytes_ = shared_bytes;
  statics_.clear();
  forget_accesses(early_);
  try {
    seed();
    for (uint64_t index : order_of_blocks(grid.count())) run_block(grid.at(index));
  } catch (const Failure& failure) {
    lanes_.clear();  // they stopped in the middle of the kernel
    return reject(failure.status, failure.what());
  }
  return kSuccess;
}

void Machine::read_back(void* host, const void* device, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto* from = static_cast<const unsigned char*>(device);
  if (!skipping_) brought_[bytes].assign(from, from + bytes);
  const auto found = brought_.find(bytes);
  memcpy(host, found == brought_.end() ? from : found->second.data(), bytes);
}

const Lane& Machine::warp_collective(const Place& place, uint32_t mask, uint64_t value) {
  Lane& lane = *current_;
  lane.place = place;
  lane.mask = mask;
  lane.value = value;
  if (!(mask & lane.bit())) fail(lane, "is not in the mask that it passes to " + place.text());
  wait(lane, Lane::kAtWarp);
  return lane;
}

uint64_t Machine::brought(const Lane& lane, int source, const Place& place) {
  if (!(lane.group >> source & 1))
    fail(*current_, "reads lane " + std::to_string(source) + ", which takes no part in " + place.text());
  return lane.seen[source];
}

void Machine::block_barrier(const Place& place) {
  current_->place = place;
  wait(*current_, Lane::kAtBlock);
}

void Machine::declare_shared(void* variable, size_t bytes) {
  Shared& shared = statics_[static_cast<char*>(variable)];
  if (shared.block != blocks_)
    memset(variable, kGarbage, bytes);  // as on a device; the first thread comes here
  shared = Shared{bytes, blocks_};
  size_t total = 0;
  for (const auto& each : statics_) total += (each.second.bytes + 15) / 16 * 16;
  // A kernel that asks for more dynamic shared memory has the static one besides, up to what a block can
  // have.
  const size_t most = most_shared_ > kSharedUnasked ? kSharedOfBlock : kSharedUnasked;
  if (total + shared_bytes_ > most)
    fail(*current_,
         "finds " + std::to_string(total) + " bytes of static and " + std::to_string(shared_bytes_) +
             " of dynamic shared memory, together more than " + std::to_string(most >> 10) + " KiB",
         kInvalidValue);
}

void Machine::fail(Lane& lane, const std::string& what, int32_t status) {
  pending_ = thread_text(lane) + " " + what;
  pending_status_ = status;
  lane.fibre.suspend();
  abort();  // the scheduler drops the lanes of a failed launch
}

bool Machine::watches(const void* address) const {
  const char* const at = static_cast<const char*>(address);
  const auto lies_in = [at](const void* begin, size_t size) {
    return at >= begin && at < static_cast<const char*>(begin) + size;
  };
  if (!current_ || lies_in(current_->fibre.stack(), Fibre::kStackBytes)) return false;
  const auto after = statics_.upper_bound(at);
  const bool is_static =
      after != statics_.begin() && lies_in(std::prev(after)->first, std::prev(after)->second.bytes);
  return !is_static && !lies_in(shared_.get(), shared_bytes_);
}

void Machine::misaligned(const Place& place, const void* address, size_t bytes) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const std::string what = "needs an address that is a multiple of " + std::to_string(bytes) + " in " +
                           place.text() + ", and has one that is " + std::to_string(at % bytes) + " more";
  if (current_) fail(*current_, what, kMisalignedAddress);
  fprintf(stderr, "host code of a kernel %s\n", what.c_str());
  abort();
}

int32_t Machine::reject(int32_t status, const std::string& why) {
  error_ = name_ + ": " + why;
  return status;
}

// VALOR_SIM_SEED permutes the order of blocks and lanes and lets lanes drift apart, which exposes races.
void Machine::seed() {
  const char* value = getenv("VALOR_SIM_SEED");
  shuffled_ = value != nullptr && *value != '\0';
  seed_ = shuffled_ ? strtoull(value, nullptr, 10) : 0;
  if (shuffled_) random_.seed(seed_);
}

std::vector<uint64_t> Machine::order_of(uint64_t count) {
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (shuffled_) std::shuffle(order.begin(), order.end(), random_);
  return order;
}

// Of three seeds in a row one runs blocks forwards, one backwards, and one shuffles them: of few blocks, a
// shuffle may leave the first where it is.
std::vector<uint64_t> Machine::order_of_blocks(uint64_t count) {
  std::vector<uint64_t> order = order_of(count);
  if (seed_ % 3 == 2) return order;
  std::iota(order.begin(), order.end(), 0);
  if (seed_ % 3 == 1) std::reverse(order.begin(), order.end());
  return order;
}

void Machine::entry() {
  Machine& machine = instance();
  Lane& lane = *machine.current_;
  lane.fibre.enter();
  for (;;) {
    machine.body_();
    machine.end(lane);
  }
}

void Machine::run_block(const dim3& block) {
  blockIdx = block;
  ++blocks_;
  shared_.reset(new unsigned char[shared_bytes_]);
  memset(shared_.get(), kGarbage, shared_bytes_);
  count_ = static_cast<int>(blockDim.count());
  while (static_cast<int>(lanes_.size()) < count_) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->index = static_cast<int>(lanes_.size()) - 1;
    lanes_.back()->fibre.begin(entry);
  }
  for (int i = 0; i < count_; ++i) lanes_[i]->state = Lane::kReady, lanes_[i]->waited = !early_;
  while (run_ready_lanes()) release();
}

// Runs every ready lane to its next collective; false when all are done.
bool Machine::run_ready_lanes() {
  bool waiting = false;
  const std::vector<uint64_t> order = shuffled_ ? order_of(count_) : std::vector<uint64_t>();
  for (int i = 0; i < count_; ++i) {
    const uint64_t index = shuffled_ ? order[i] : i;
    Lane& lane = *lanes_[index];
    const bool held_back = shuffled_ && random_() % 4 == 0;
    if (lane.state == Lane::kReady && !held_back) {
      current_ = &lane;
      threadIdx = blockDim.at(index);
      lane.fibre.resume();
      current_ = nullptr;
      if (!pending_.empty()) throw Failure(pending_status_, std::exchange(pending_, std::string()));
    }
    waiting |= lane.state != Lane::kDone;
  }
  return waiting;
}

void Machine::wait(Lane& lane, Lane::State state) {
  lane.state = state;
  lane.fibre.suspend();
}

void Machine::release() {
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
void Machine::release_warp(int first) {
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

void Machine::exchange(int first, uint32_t group) {
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

bool Machine::same_place() const {
  const Lane* first = nullptr;
  for (int i = 0; i < count_; ++i) {
    if (lanes_[i]->state == Lane::kDone) continue;
    if (first && !(first->place == lanes_[i]->place)) return false;
    if (!first) first = lanes_[i].get();
  }
  return true;
}

std::string Machine::thread_text(const Lane& lane) const {
  return "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
         std::to_string(blockIdx.z) + ") thread " + std::to_string(lane.index);
}

std::string Machine::stuck_text() const {
  std::string text = "threads wait for others that never come:";
  std::vector<Place> told;
  for (int i = 0; i < count_; ++i) {
    const Lane& lane = *lanes_[i];
    if (lane.state == Lane::kDone || std::find(told.begin(), told.end(), lane.place) != told.end()) continue;
    told.push_back(lane.place);
    text += (told.size() > 1 ? ", " : " ") + thread_text(lane) + " at " + lane.place.text();
  }
  return text;
}

}  // namespace valor_sim

// What the compiler calls, for -fsanitize=alignment, ahead of an access to an address that its type does not
// allow. The layout is that of GCC and Clang.
namespace {
struct TypeMismatch {
  const char* file;
  uint32_t line, column;
  const struct {
    uint16_t kind, info;
    char name[1];
  }* type;
  unsigned char log_alignment, access;
};

void report(const TypeMismatch* data, const void* address) {
  const std::string what = std::string("access to ") + data->type->name;
  const valor_sim::Place place = {what.c_str(), data->file, static_cast<int>(data->line)};
  valor_sim::Machine::instance().misaligned(place, address, size_t{1} << data->log_alignment);
}
}  // namespace

extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(
    const TypeMismatch* data, const void* address) {
  report(data, address);
}
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1_abort(
    const TypeMismatch* data, const void* address) {
  report(data, address);
}

// Why the last launch failed; empty when it did not.
extern "C" __attribute__((visibility("default"))) const char* valor_sim_error() {
  return valor_sim::Machine::instance().error();
}

// Whether launches return at once from now on: see Machine::skip.
extern "C" __attribute__((visibility("default"))) void valor_sim_skip(int32_t launches) {
  valor_sim::Machine::instance().skip(launches != 0);
}

// Names of the kernels launched since the last call, a line each.
extern "C" __attribute__((visibility("default"))) const char* valor_sim_launches() {
  static std::string taken;
  taken.clear();
  taken.swap(valor_sim::launched());
  return taken.c_str();
}
