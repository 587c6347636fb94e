// Panoptic quality on CUDA: segments and pairs of segments are numbered by hash tables in device memory.
//
// Every image has small tables first. One that has more segments than they hold is counted again in tables
// with room for a segment a pixel, by launches that return at once for all others; these tables serve some
// images after others. All sums are of integers, so that no order of threads changes a bit.
#include "../core/panoptic.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kThreads = 256;
constexpr int kRunPixels = 8;              // of a thread
constexpr int64_t kFewSlots = 1 << 12;     // of a small table
constexpr int64_t kMostSlots = 1ll << 22;  // of large tables at a time, unless one image alone has more
constexpr uint32_t kMostProbes = 64;       // in a small table
constexpr uint32_t kNone = UINT32_MAX;

// A segment of one side. All words are 0 where there is none.
struct Segment {
  uint32_t pixel;  // one that it has, from 1 on
  uint32_t area;
  uint32_t on_void;  // pixels that are void on the other side
  uint32_t matched;
};

// Pixels that two segments of one category share.
struct Pair {
  unsigned long long key;  // number of the prediction from 1 on, above that of the ground truth; 0: none
  uint32_t common, unused;
};
static_assert(sizeof(Segment) == 16 && sizeof(Pair) == 16, "tables are cleared by words of 16 bytes");

// The tables of some images: first those of predictions, then of ground truths, then pairs.
struct Level {
  Segment* segments;
  uint32_t slots;  // of each of the three tables of an image
  uint32_t probes;
  uint32_t first, images;   // which images
  uint32_t wants_overflow;  // 1: those that a small table does not hold; 0: the others

  __device__ Segment* preds(uint32_t image) const {
    return segments + static_cast<int64_t>(image) * 3 * slots;
  }
  __device__ Segment* target(uint32_t image) const { return preds(image) + slots; }
  __device__ Pair* pairs(uint32_t image) const {
    return reinterpret_cast<Pair*>(preds(image) + 2 * static_cast<int64_t>(slots));
  }
};

struct CountTask {
  PanopticTask panoptic;
  Level level;
  uint32_t* overflows;  // [images]
  unsigned long long* tables;
  int64_t* error;

  __device__ bool is_due(uint32_t image) const {
    return (overflows[level.first + image] != 0) == (level.wants_overflow != 0);
  }
  __device__ void add(uint32_t image, int row, int64_t category, int64_t count) const {
    const int64_t cell = (static_cast<int64_t>(level.first + image) * kCells + row) * panoptic.classes;
    atomicAdd(tables + cell + category, static_cast<unsigned long long>(count));
  }
};

__device__ int64_t load_value(const PanopticSide& side, int64_t at) {
  const void* data = side.map.data;
  switch (side.map.type) {
    case kUInt16:
      return static_cast<const uint16_t*>(data)[at];
    case kUInt32:
      return static_cast<const uint32_t*>(data)[at];
    default:
      return load_int(data, at, static_cast<IntType>(side.map.type));
  }
}

// A pixel of one side as it is stored.
struct Value {
  int64_t key, instance;

  Value() = default;
  __device__ Value(const PanopticTask& task, const PanopticSide& side, uint32_t image, uint32_t pixel) {
    const uint32_t columns = static_cast<uint32_t>(task.columns);
    const int64_t at = image * side.map.image_stride + pixel / columns * side.map.row_stride +
                       pixel % columns * side.map.pixel_stride;
    key = load_value(side, at);
    instance = side.instance_stride ? load_value(side, at + side.instance_stride) : 0;
  }
  __device__ bool operator==(const Value& other) const {
    return key == other.key && instance == other.instance;
  }
};

__device__ uint32_t first_slot(uint64_t word, uint32_t slots) {
  return static_cast<uint32_t>((mix(word) >> 32) * slots >> 32);
}

// One side of an image, as a thread sees it.
struct Cursor {
  Value value;            // of the last pixel
  int64_t category = -1;  // of its segment, -1 for void
  uint32_t slot = kNone;  // its segment
  int64_t entry = -1;
  bool is_known = false;

  // Moves to a pixel; false where the table is full.
  __device__ bool move(const CountTask& task, const PanopticSide& side, Segment* table, uint32_t image,
                       uint32_t pixel, const Value& next, ValueError kind) {
    const uint32_t whole = task.level.first + image;
    if (!is_known || next.key != value.key) {
      entry = side.find(next.key);
      if (entry < 0 && side.is_bad(next.key)) {
        const int64_t code = value_error(whole, pixel, kind);
        atomicMin(reinterpret_cast<long long*>(task.error), static_cast<long long>(code));
      }
    }
    value = next, is_known = true;
    category = entry < 0 ? -1 : side.values[entry] >> kEntryBits;
    slot = kNone;
    if (entry < 0) return true;
    const bool has_instances = side.values[entry] & kInstances;
    const uint64_t word = static_cast<uint64_t>(has_instances ? value.instance : 0) +
                          0x9e3779b97f4a7c15ull * static_cast<uint64_t>(entry + 1);
    uint32_t at = first_slot(word, task.level.slots);
    for (uint32_t probe = 0; probe < task.level.probes;
         ++probe, at = at + 1 == task.level.slots ? 0 : at + 1) {
      uint32_t seen = table[at].pixel;
      if (seen == 0) seen = atomicCAS(&table[at].pixel, 0u, pixel + 1);
      if (seen != 0) {
        const Value other(task.panoptic, side, whole, seen - 1);
        if (other.key != value.key || (has_instances && other.instance != value.instance)) continue;
      }
      slot = at;
      return true;
    }
    return false;
  }
};

// Adds pixels to a pair; false where the table is full.
__device__ bool add_pair(const Level& level, Pair* pairs, uint32_t own, uint32_t other, uint32_t count) {
  const unsigned long long key = static_cast<unsigned long long>(own + 1) << 32 | other;
  uint32_t at = first_slot(key, level.slots);
  for (uint32_t probe = 0; probe < level.probes; ++probe, at = at + 1 == level.slots ? 0 : at + 1) {
    unsigned long long seen = pairs[at].key;
    if (seen == 0) seen = atomicCAS(&pairs[at].key, 0ull, key);
    if (seen != 0 && seen != key) continue;
    atomicAdd(&pairs[at].common, count);
    return true;
  }
  return false;
}

// A run of pixels of one pair of segments.
struct Run {
  uint32_t own = kNone, other = kNone, count = 0;
  bool is_same = false;  // of one category

  __device__ bool add_to(const Level& level, uint32_t image) const {
    if (count == 0) return true;
    if (own != kNone) {
      Segment& segment = level.preds(image)[own];
      atomicAdd(&segment.area, count);
      if (other == kNone) atomicAdd(&segment.on_void, count);
    }
    if (other != kNone) {
      Segment& segment = level.target(image)[other];
      atomicAdd(&segment.area, count);
      if (own == kNone) atomicAdd(&segment.on_void, count);
    }
    return !is_same || add_pair(level, level.pairs(image), own, other, count);
  }
};

__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ CountTask task, uint32_t image_blocks) {
  const uint32_t image = blockIdx.x / image_blocks, block = blockIdx.x % image_blocks;
  if (task.level.wants_overflow && !task.is_due(image)) return;
  const Warp warp;
  const PanopticTask& panoptic = task.panoptic;
  const uint32_t whole = task.level.first + image;
  if (!task.level.wants_overflow && warp.ballot(task.overflows[whole] != 0)) return;
  const int64_t pixels = panoptic.pixels();
  const int64_t first = (static_cast<int64_t>(block) * kThreads + threadIdx.x) * kRunPixels;
  Segment *const own_table = task.level.preds(image), *const other_table = task.level.target(image);
  Cursor own, other;
  Run run;
  bool fits = true;
  VALOR_ROLLED
  for (int i = 0; i < kRunPixels; ++i) {
    if (first + i >= pixels) break;
    const uint32_t pixel = static_cast<uint32_t>(first + i);
    const Value value(panoptic, panoptic.preds, whole, pixel),
        true_value(panoptic, panoptic.target, whole, pixel);
    const bool stays = i > 0 && value == own.value, true_stays = i > 0 && true_value == other.value;
    if (!stays || !true_stays) {
      fits = run.add_to(task.level, image) && fits;
      if (!stays) fits = own.move(task, panoptic.preds, own_table, image, pixel, value, kPrediction) && fits;
      if (!true_stays)
        fits = other.move(task, panoptic.target, other_table, image, pixel, true_value, kTarget) && fits;
      run.own = own.slot, run.other = other.slot, run.count = 0;
      run.is_same = own.slot != kNone && other.slot != kNone && own.category == other.category;
    }
    ++run.count;
  }
  // One pair in all lanes: one of them adds.
  const uint32_t lead = warp.from(run.own, 0), other_lead = warp.from(run.other, 0);
  if (warp.ballot(run.own == lead && run.other == other_lead) == Warp::kAll) {
    run.count = warp.sum(run.count);
    if (warp.lane() != 0) run.count = 0;
  }
  fits = run.add_to(task.level, image) && fits;
  if (!fits) task.overflows[whole] = 1;
}

__global__ void __launch_bounds__(kThreads)
    match_kernel(const __grid_constant__ CountTask task, uint32_t image_blocks) {
  const uint32_t image = blockIdx.x / image_blocks;
  const uint32_t slot = blockIdx.x % image_blocks * kThreads + threadIdx.x;
  if (!task.is_due(image) || slot >= task.level.slots) return;
  const Pair pair = task.level.pairs(image)[slot];
  if (pair.key == 0) return;
  const PanopticTask& panoptic = task.panoptic;
  Segment& own = task.level.preds(image)[(pair.key >> 32) - 1];
  Segment& other = task.level.target(image)[pair.key & 0xffffffffu];
  const Value value(panoptic, panoptic.target, task.level.first + image, other.pixel - 1);
  const int64_t category = panoptic.target.values[panoptic.target.find(value.key)] >> kEntryBits;
  const int64_t ignored = panoptic.ignores_voids ? other.on_void : 0, common = pair.common;
  const int64_t together = int64_t{own.area} - own.on_void + int64_t{other.area} - ignored - common;
  const bool has_threshold = category < panoptic.modified;
  if (has_threshold && !is_match(common, together)) return;
  own.matched = other.matched = 1;
  const FixedIou iou(common, together);
  for (int i = 0; i < 3; ++i) task.add(image, kIouHigh + i, category, iou.words[i]);
  if (has_threshold) task.add(image, kTruePositives, category, 1);
}

__device__ void count_segment(const CountTask& task, uint32_t image, const Segment& segment, bool is_true) {
  if (segment.pixel == 0) return;
  const PanopticTask& panoptic = task.panoptic;
  const PanopticSide& side = is_true ? panoptic.target : panoptic.preds;
  const Value value(panoptic, side, task.level.first + image, segment.pixel - 1);
  const int64_t category = side.values[side.find(value.key)] >> kEntryBits;
  task.add(image, is_true ? kTrue : kPredicted, category, 1);
  if (category >= panoptic.modified) {
    if (is_true) task.add(image, kTruePositives, category, 1);
    return;
  }
  const bool voids_count = !is_true || panoptic.ignores_voids;
  if (segment.matched || (voids_count && is_mostly(segment.on_void, segment.area))) return;
  task.add(image, is_true ? kFalseNegatives : kFalsePositives, category, 1);
}

__global__ void __launch_bounds__(kThreads)
    unmatched_kernel(const __grid_constant__ CountTask task, uint32_t image_blocks) {
  const uint32_t image = blockIdx.x / image_blocks;
  const uint32_t slot = blockIdx.x % image_blocks * kThreads + threadIdx.x;
  if (!task.is_due(image) || slot >= task.level.slots) return;
  count_segment(task, image, task.level.preds(image)[slot], false);
  count_segment(task, image, task.level.target(image)[slot], true);
}

// Empties the tables of an image.
__global__ void __launch_bounds__(kThreads)
    clear_tables_kernel(const __grid_constant__ CountTask task, uint32_t image_blocks) {
  const uint32_t image = blockIdx.x / image_blocks;
  const uint32_t slot = blockIdx.x % image_blocks * kThreads + threadIdx.x;
  if (task.level.wants_overflow && !task.is_due(image)) return;
  if (!task.level.wants_overflow && slot == 0) task.overflows[task.level.first + image] = 0;
  if (slot >= task.level.slots) return;
  for (int64_t table = 0; table < 3; ++table)
    task.level.preds(image)[table * task.level.slots + slot] = Segment{0, 0, 0, 0};
}

// --------------------------------------------------------------------------------------------------------
// host

// How the workspace is divided.
struct Plan {
  int64_t few, many;  // slots of the tables of an image
  int64_t chunk;      // images that large tables serve at a time; 0: small tables hold everything
  int64_t flag_bytes, few_bytes, many_bytes;

  explicit Plan(const PanopticTask& task) {
    many = task.pixels() + task.pixels() / 4 + 32;  // so that a search ends at an empty slot
    few = many < kFewSlots ? many : kFewSlots;
    const int64_t most = kMostSlots / many < 1 ? 1 : kMostSlots / many;
    chunk = few == many ? 0 : most < task.images ? most : task.images;
    flag_bytes = (task.images * 4 + 15) / 16 * 16;
    few_bytes = task.images * few * 3 * 16;
    many_bytes = chunk * many * 3 * 16;
  }
  int64_t bytes() const { return flag_bytes + few_bytes + many_bytes; }
};

int32_t launch_level(const CountTask& task, void* stream) {
  const auto blocks_of = [](int64_t items, int64_t block) {
    return static_cast<uint32_t>((items + block - 1) / block);
  };
  const uint32_t by_pixel = blocks_of(task.panoptic.pixels(), kThreads * kRunPixels);
  const uint32_t by_slot = blocks_of(task.level.slots, kThreads);
  const int64_t most = static_cast<int64_t>(by_pixel > by_slot ? by_pixel : by_slot) * task.level.images;
  if (most > INT32_MAX) return 9;  // cudaErrorInvalidConfiguration
  const uint32_t images = task.level.images;
  int32_t status = VALOR_LAUNCH(clear_tables_kernel, images * by_slot, kThreads, 0, stream, task, by_slot);
  if (!status) status = VALOR_LAUNCH(count_kernel, images * by_pixel, kThreads, 0, stream, task, by_pixel);
  if (!status) status = VALOR_LAUNCH(match_kernel, images * by_slot, kThreads, 0, stream, task, by_slot);
  if (!status) status = VALOR_LAUNCH(unmatched_kernel, images * by_slot, kThreads, 0, stream, task, by_slot);
  return status;
}

}  // namespace
}  // namespace valor

// Bytes of workspace that valor_count_panoptic_cuda needs. task_words are a PanopticTask.
VALOR_API int32_t valor_count_panoptic_bytes_cuda(const void* task_words, int64_t* bytes) {
  *bytes = valor::Plan(*static_cast<const valor::PanopticTask*>(task_words)).bytes();
  return 0;
}

// Adds to tables [images, kCells, classes] and lowers `error`. On the host: task_words, a PanopticTask of at
// least one pixel whose keys and values lie on the device. scratch is aligned to 16 bytes.
VALOR_API int32_t valor_count_panoptic_cuda(const void* task_words, void* scratch, int64_t* tables,
                                            int64_t* error, void* stream) {
  using namespace valor;
  const PanopticTask& panoptic = *static_cast<const PanopticTask*>(task_words);
  const Plan plan(panoptic);
  char* const bytes = static_cast<char*>(scratch);
  CountTask task;
  task.panoptic = panoptic;
  task.overflows = reinterpret_cast<uint32_t*>(bytes);
  task.tables = reinterpret_cast<unsigned long long*>(tables);
  task.error = error;
  Segment* const few = reinterpret_cast<Segment*>(bytes + plan.flag_bytes);
  const uint32_t slots = static_cast<uint32_t>(plan.few), images = static_cast<uint32_t>(panoptic.images);
  task.level = Level{few, slots, plan.chunk ? kMostProbes : slots, 0, images, 0};
  int32_t status = launch_level(task, stream);
  for (int64_t first = 0; plan.chunk && first < panoptic.images && !status; first += plan.chunk) {
    const int64_t rest = panoptic.images - first, many = plan.chunk < rest ? plan.chunk : rest;
    task.level = Level{few + plan.few_bytes / 16,        static_cast<uint32_t>(plan.many),
                       static_cast<uint32_t>(plan.many), static_cast<uint32_t>(first),
                       static_cast<uint32_t>(many),      1};
    status = launch_level(task, stream);
  }
  return status;
}
