// Orders detection records by (class, score descending, place of the image, index in the image): rows are
// laid out in the order of images, then sorted stably by class and score. Which images come again is found on
// the way.
#include "accumulate_stages.h"
#include "clear.h"
#include "image_keys.h"

namespace valor {
namespace {

constexpr int64_t kFewImages = 8192;  // each thread adds 32 of them at most
VALOR_HD int64_t tiles_of(const OrderTask& task) { return (task.num_images + kThreads - 1) / kThreads; }

// As descending_key of a double, which float32 holds.
VALOR_HD uint32_t descending_key32(float value) {
  if (value != value) return ~0u;
  const uint32_t bits = bits_of(value == 0.0f ? 0.0f : value);
  return (bits >> 31) ? bits : ~(bits | (1u << 31));
}

// -------------------------------------------------------------------------------------------------------
// images

// Detections of the image at place i, by arrival or in the order of the keys.
__device__ __forceinline__ int64_t detections_at(const Ordering& run, int64_t i, bool by_key) {
  if (i >= run.task.num_images) return 0;
  return image_row(run.task, by_key ? image_of(run.tables.images.now[i]) : i)[kDetections];
}

// Sum over the block of what the threads before this one bring; the sum of all is in `total`.
__device__ __forceinline__ int64_t sum_before(int64_t value, int64_t& total) {
  VALOR_SHARED(long long, sums, [kThreads / 32]);
  const int lane = Warp().lane(), warp = static_cast<int>(threadIdx.x) / 32;
  long long upto = value;
  for (int offset = 1; offset < 32; offset *= 2) {
    const long long other = __shfl_up_sync(Warp::kAll, upto, offset);
    if (lane >= offset) upto += other;
  }
  __syncthreads();
  if (lane == 31) sums[warp] = upto;
  __syncthreads();
  int64_t before = 0;
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  return before + upto - value;
}

// One block a tile of images, by arrival or by key: how many detections it has.
__global__ void __launch_bounds__(kThreads) tile_kernel(const __grid_constant__ Ordering run) {
  const bool by_key = blockIdx.x % 2;
  const int64_t tile = blockIdx.x / 2;
  int64_t total;
  sum_before(detections_at(run, tile * kThreads + threadIdx.x, by_key), total);
  if (threadIdx.x == 0) run.tables.sums[by_key * tiles_of(run.task) + tile] = total;
}

// Writes where the detections of each image begin, by arrival and by key; and whether an id comes again. A
// few images are added up anew by each tile, more of them by tile_kernel.
__global__ void __launch_bounds__(kThreads)
    start_kernel(const __grid_constant__ Ordering run, const bool few) {
  const bool by_key = blockIdx.x % 2;
  const int64_t tile = blockIdx.x / 2, tiles = tiles_of(run.task), images = run.task.num_images;
  const int64_t i = tile * kThreads + threadIdx.x, own = detections_at(run, i, by_key);
  const SortKey* const keys = run.tables.images.now;
  if (by_key && i > 0 && i < images && same_id(keys[i], keys[i - 1])) set_word(run.task.words, kRepeatedWord);
  int64_t before = 0, base, total;
  for (int64_t t = threadIdx.x; !few && t < tile; t += kThreads)
    before += run.tables.sums[by_key * tiles + t];
  for (int64_t j = threadIdx.x; few && j < tile * kThreads; j += kThreads)
    before += detections_at(run, j, by_key);
  sum_before(before, base);
  const int64_t start = base + sum_before(own, total);
  if (i >= images) return;
  if (by_key)
    run.tables.starts[image_of(keys[i])] = start;
  else
    run.tables.arrival[i] = start;
  const int64_t end = start + own, rows = run.task.num_detections;
  if (own < 0 || end > rows || (i == images - 1 && end != rows)) set_word(run.task.words, kInvalidWord);
}

int32_t order_images(Ordering& run, void* stream) {
  const int64_t images = run.task.num_images;
  if (images == 0) return 0;
  const unsigned tiles = static_cast<unsigned>(2 * tiles_of(run.task));
  int32_t status = merge_strips(run.tables.images, images, stream);
  const bool few = images <= kFewImages;
  if (status == 0 && !few) status = VALOR_LAUNCH(tile_kernel, tiles, kThreads, 0, stream, run);
  return status ? status : VALOR_LAUNCH(start_kernel, tiles, kThreads, 0, stream, run, few);
}

// ---------------------------------------------------------------------------------------------------
// detections

// Class of a detection; that of rows left out comes after all others.
__device__ __forceinline__ int64_t class_of(const Ordering& run, int32_t label, int bucket, bool labelled) {
  const int64_t none = run.task.classes();
  if (bucket >= run.task.limits) return none;
  if (run.task.agnostic) return 0;
  const int32_t found = labelled ? run.tables.labels.find(label) : -1;
  return found < 0 ? none : found;
}

// Where a row stands when images are in order; -1 if it belongs to none.
__device__ __forceinline__ int64_t place_of(const Ordering& run, int64_t row) {
  if (!run.task.by_key) return row;
  const int64_t* arrival = run.tables.arrival;
  const int64_t image =
      partition_point(run.task.num_images, [=](int64_t i) { return arrival[i] <= row; }) - 1;
  if (image < 0) return -1;
  const int64_t place = run.tables.starts[image] + row - arrival[image];
  return static_cast<uint64_t>(place) < static_cast<uint64_t>(run.task.num_detections) ? place : -1;
}

// The first part of the key of a row, where scores are float32.
__device__ __forceinline__ uint64_t narrow_key(const Ordering& run, double score, int64_t k) {
  const float narrow = static_cast<float>(score);
  if (k < run.task.classes() && score == score && static_cast<double>(narrow) != score && !run.task.wide)
    set_word(run.task.words, kWideWord);
  return static_cast<uint64_t>(k) << kScoreBits | descending_key32(narrow);
}

// Writes the keys of the rows of one of the first blocks, sorted where they will be merged.
template <bool kMerged>
__device__ __forceinline__ void write_keys(const Ordering& run, int64_t i, bool labelled, SortKey* strip) {
  const bool there = i < run.task.num_detections;
  if (!kMerged && !there) return;
  uint32_t words[4];  // score, label, bucket
  load_words(run.task.detection(there ? i : 0), words);
  const double score = double_of(static_cast<uint64_t>(words[1]) << 32 | words[0]);
  const int64_t place = there ? place_of(run, i) : -1;
  const int64_t k = class_of(run, static_cast<int32_t>(words[2]), words[3] & 0xff, labelled);
  const uint64_t key = there ? narrow_key(run, score, k) : 0;
  if (kMerged)
    return write_strip({key, static_cast<uint64_t>(place) << 32 | static_cast<uint64_t>(i)}, there,
                       run.tables.keys.now + blockIdx.x * kStrip, strip);
  if (place < 0) return;
  run.tables.pairs.keys[place] = run.task.wide ? descending_key(score) : key;
  run.tables.pairs.rows[place] = static_cast<uint32_t>(i);
}

// Adds the ground truths of this block that count, in shared memory where all classes have room there.
__device__ __forceinline__ void count_ground_truth(const Ordering& run, int64_t i, bool labelled,
                                                   uint32_t* shared) {
  const int64_t areas = run.task.areas, cells = run.task.classes() * areas;
  unsigned long long* const counts = reinterpret_cast<unsigned long long*>(run.task.positives);
  for (int64_t cell = threadIdx.x; shared && cell < cells; cell += kThreads) shared[cell] = 0;
  __syncthreads();
  if (i < run.task.num_ground_truths) {
    const uint8_t* row = run.task.ground_truth(i);
    const int32_t found = labelled ? run.tables.labels.find(ground_truth_label(row)) : -1;
    const int64_t k = run.task.agnostic ? 0 : found;
    for (int64_t a = 0; k >= 0 && k < run.task.classes() && a < areas; ++a) {
      if (!OrderTask::bit(row, a)) continue;
      if (shared)
        atomicAdd(shared + k * areas + a, 1u);
      else
        atomicAdd(counts + k * areas + a, 1ull);
    }
  }
  __syncthreads();
  for (int64_t cell = threadIdx.x; shared && cell < cells; cell += kThreads)
    if (shared[cell]) atomicAdd(counts + cell, static_cast<unsigned long long>(shared[cell]));
}

// The first blocks write the keys of detections, the others count ground truths.
template <bool kMerged>
__global__ void __launch_bounds__(kThreads)
    key_kernel(const __grid_constant__ Ordering run, const int64_t detection_blocks, const bool shared) {
  VALOR_DYNAMIC_SHARED(uint32_t, counts);
  VALOR_SHARED(SortKey, strip, [kMerged ? kStrip : 1]);
  const bool labelled = run.tables.labels.holds();
  const int64_t block = blockIdx.x;
  const int64_t i = (block < detection_blocks ? block : block - detection_blocks) * kThreads + threadIdx.x;
  if (block >= detection_blocks)
    count_ground_truth(run, i, labelled, shared ? counts : nullptr);
  else
    write_keys<kMerged>(run, i, labelled, strip);
}

// After a sort by float64 scores the keys become classes.
__global__ void __launch_bounds__(kThreads) class_kernel(const __grid_constant__ Ordering run) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= run.task.num_detections) return;
  const int64_t row = run.tables.pairs.rows[i], last = run.task.num_detections - 1;
  const uint8_t* const record = run.task.detection(row < last ? row : last);
  run.tables.pairs.keys[i] = static_cast<uint64_t>(
      class_of(run, record_label(record), record_bucket(record), run.tables.labels.holds()));
}

// Writes the rows in order, and where each class begins.
__global__ void __launch_bounds__(kThreads)
    bound_kernel(const __grid_constant__ Ordering run, const int shift) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t rows = run.task.num_detections, classes = run.task.classes();
  if (i >= rows) return;
  const bool merged = run.merged();
  const auto class_at = [&](int64_t at) {
    const uint64_t key = merged ? run.tables.keys.now[at].high : run.tables.pairs.keys[at];
    const int64_t k = static_cast<int64_t>(key >> shift);
    return k < classes ? k : classes;
  };
  const int64_t row = merged ? static_cast<uint32_t>(run.tables.keys.now[i].low) : run.tables.pairs.rows[i];
  const int64_t k = class_at(i);
  run.task.order[i] = row < rows ? row : rows - 1;
  for (int64_t c = i == 0 ? 0 : class_at(i - 1) + 1; c <= k; ++c) run.task.offsets[c] = i;
  if (k == classes && (i == 0 || class_at(i - 1) < classes)) run.task.words[kRankedWord] = i;
  if (i < rows - 1 || k == classes) return;
  for (int64_t c = k + 1; c <= classes; ++c) run.task.offsets[c] = rows;
  run.task.words[kRankedWord] = rows;
}

int32_t sort_detections(Ordering& run, void* stream) {
  const int64_t rows = run.task.num_detections;
  const unsigned blocks = static_cast<unsigned>((rows + kThreads - 1) / kThreads);
  const int class_bits = run.class_bits();
  const auto sort = [&](int end) {
    return sort_pairs(run.tables.pairs, rows, 0, end, run.tables.scratch, run.tables.scratch_bytes, stream);
  };
  int32_t status = run.merged() ? merge_strips(run.tables.keys, rows, stream)
                                : sort(run.task.wide ? 64 : kScoreBits + class_bits);
  if (status == 0 && run.task.wide) status = VALOR_LAUNCH(class_kernel, blocks, kThreads, 0, stream, run);
  if (status == 0 && run.task.wide) status = sort(class_bits);
  const int shift = run.task.wide ? 0 : kScoreBits;
  return status ? status : VALOR_LAUNCH(bound_kernel, blocks, kThreads, 0, stream, run, shift);
}

int32_t write_all_keys(const Ordering& run, void* stream) {
  constexpr int64_t kMostShared = 16 << 10;
  const int64_t found = run.task.detection_blocks(), blocks = found + run.task.ground_truth_blocks();
  const int64_t bytes = run.task.classes() * run.task.areas * static_cast<int64_t>(sizeof(uint32_t));
  const bool shared = bytes <= kMostShared;
  if (blocks == 0) return 0;
  const int64_t room = shared ? bytes : 0;
  return run.merged() ? VALOR_LAUNCH(key_kernel<true>, static_cast<unsigned>(blocks), kThreads, room, stream,
                                     run, found, shared)
                      : VALOR_LAUNCH(key_kernel<false>, static_cast<unsigned>(blocks), kThreads, room, stream,
                                     run, found, shared);
}

int32_t clear_tables(const Ordering& run, const SampleTables& samples, void* stream) {
  const OrderTask& task = run.task;
  int64_t* const slots = reinterpret_cast<int64_t*>(run.tables.labels.slots);
  const int64_t classes = task.classes();
  const ClearTask zero{
      {task.words + kErrorWord + 1, task.positives, task.offsets, slots,
       reinterpret_cast<int64_t*>(samples.precision), reinterpret_cast<int64_t*>(samples.scores)},
      {kWords - 1, classes * task.areas, classes + 1, task.slots + 1, samples.precision_samples,
       samples.score_samples},
      task.error,
      task.words + kErrorWord};
  return clear(zero, stream);
}

// Places the tables of a call; returns the bytes that they take, a status below 0 for none.
int32_t place_tables(const OrderTask& task, void* base, OrderTables& tables, int64_t* bytes) {
  const int64_t images = task.num_images, rows = task.num_detections;
  const bool merged = Ordering{task, {}}.merged();
  const int64_t by_merging = merged ? rows : 0, by_radix = merged ? 0 : rows;
  tables.scratch_bytes = 0;
  if (!merged)
    if (const int32_t status = sort_pairs_scratch(rows, &tables.scratch_bytes)) return status;
  TableLayout layout(base);
  layout.place(tables.images.now, images);  // aligned to 16 bytes, as the tables of keys that follow
  layout.place(tables.images.spare, images);
  layout.place(tables.keys.now, by_merging);
  layout.place(tables.keys.spare, by_merging);
  LabelTable& labels = tables.labels;
  labels.size = task.slots, labels.capacity = task.capacity, labels.words = task.words;
  layout.place(labels.slots, task.slots + 1);
  layout.place(labels.used, task.capacity);
  layout.place(tables.arrival, images);
  layout.place(tables.starts, images);
  layout.place(tables.sums, 2 * tiles_of(task));
  layout.place(tables.pairs.keys, by_radix);
  layout.place(tables.pairs.spare_keys, by_radix);
  layout.place(tables.pairs.rows, by_radix);
  layout.place(tables.pairs.spare_rows, by_radix);
  unsigned char* scratch = nullptr;
  layout.place(scratch, tables.scratch_bytes);
  tables.scratch = scratch;
  *bytes = layout.bytes();
  return 0;
}

}  // namespace

int32_t order_workspace(const OrderTask& task, int64_t* bytes) {
  OrderTables tables;
  return place_tables(task, nullptr, tables, bytes);
}

int32_t order_detections(const OrderTask& task, const SampleTables& samples, void* workspace, void* stream) {
  Ordering run{task, {}};
  int64_t bytes;
  int32_t status = place_tables(task, workspace, run.tables, &bytes);
  if (status == 0) status = clear_tables(run, samples, stream);
  if (status == 0) status = count_labels(run, stream);
  if (status == 0) status = order_images(run, stream);
  if (status == 0) status = write_all_keys(run, stream);
  return status || task.num_detections == 0 ? status : sort_detections(run, stream);
}

}  // namespace valor

// Copies bytes to the host, in pinned memory, and waits until they are there.
VALOR_API int32_t valor_read_back_cuda(void* host, const void* device, int64_t bytes, void* stream) {
  return valor::read_back(host, device, bytes, stream);
}
