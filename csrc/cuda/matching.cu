// COCO matching on CUDA: one warp an image, so that a batch is one launch and nothing waits. A lane finds out
// which detections reach any ground truth; only these are matched in order, a cell a lane, or wide cells by
// the whole warp.
#include "../core/matching.h"
#include "../core/sort.h"
#include "copy_bytes.h"
#include "launch.h"

namespace valor {
namespace {

constexpr int kImagesByValue = 16;   // as many images' segments travel in the kernel's parameters
constexpr int kNumbersByValue = 64;  // likewise words of thresholds, area ranges and limits
constexpr int64_t kMostShared =
    16 << 10;                         // bytes of shared memory an image may take; larger ones work in global
constexpr int32_t kWideCell = 32;     // ground truths beyond which a cell occupies a warp
constexpr int32_t kInvalidValue = 1;  // cudaErrorInvalidValue

struct MatchTask {
  Rule rule;  // addresses of numbers are 0 where `numbers` holds them
  Output out;
  int64_t* error;
  unsigned char* workspace;
  int64_t shared_bytes;
  int64_t images;
  const int64_t* table;  // [fields, images] on the device; null: `segments`
  int64_t numbers[kNumbersByValue];
  int64_t segments[Segment::kFields * kImagesByValue];
};
static_assert(sizeof(MatchTask) <= 4096, "kernel parameters are limited to 4 KiB");

// A detection in the order in which it is matched.
struct Ranked {
  uint64_t key;  // descending_key of its score
  int32_t label, row;

  VALOR_HD bool operator<(const Ranked& other) const {
    if (label != other.label) return label < other.label;
    return key != other.key ? key < other.key : row < other.row;
  }
};

// Working memory of an image with D detections and G ground truths.
class Scratch {
 public:
  static constexpr int64_t kDetectionBytes = sizeof(Ranked);
  static constexpr int64_t kTruthBytes =
      sizeof(Box) + sizeof(double) + 2 * sizeof(uint64_t) + 2 * sizeof(int32_t) + 8;
  static_assert(kDetectionBytes == 16 && kTruthBytes == 72, "valor_gpu/ops/_assign_cuda.py allocates these");

  VALOR_HD static int64_t bytes(int64_t detections, int64_t ground_truths) {
    return detections * kDetectionBytes + ground_truths * kTruthBytes;
  }
  VALOR_HD Scratch(unsigned char* base, int32_t detections, int32_t ground_truths)
      : base_(base), detections_(detections), gts_(ground_truths) {}

  // [D] by cell and rank; then only those that reach a ground truth.
  VALOR_HD Ranked* detections() const { return reinterpret_cast<Ranked*>(base_); }
  // [G] ground truths by cell, in input order; the fields of Cell, and each one's label and row.
  VALOR_HD Box* boxes() const { return reinterpret_cast<Box*>(detections() + detections_); }
  VALOR_HD double* ious() const { return reinterpret_cast<double*>(boxes() + gts_); }
  VALOR_HD uint64_t* counts() const { return reinterpret_cast<uint64_t*>(ious() + gts_); }
  VALOR_HD uint64_t* taken() const { return counts() + gts_; }
  VALOR_HD int32_t* labels() const { return reinterpret_cast<int32_t*>(taken() + gts_); }
  VALOR_HD int32_t* names() const { return labels() + gts_; }
  VALOR_HD uint8_t* flags() const { return reinterpret_cast<uint8_t*>(names() + gts_); }

 private:
  unsigned char* base_;
  int32_t detections_, gts_;
};

// Shared memory of an image: Scratch, then its rows of the detections table, placed as in that table
// modulo 16.
VALOR_HD int64_t shared_bytes_of(const Rule& rule, int64_t D, int64_t G) {
  return (Scratch::bytes(D, G) + 15) / 16 * 16 + 16 + D * rule.detection_bytes();
}

class ImageWarp {
 public:
  __device__ __forceinline__ ImageWarp(const MatchTask& task, const Rule& rule, const Segment& segment,
                                       unsigned char* shared)
      : task_(task), rule_(rule), segment_(segment), s_(scratch(shared)), rows_(table_rows()) {
    const int64_t D = segment.detections, G = segment.ground_truths;
    if (in_shared())
      rows_ = shared + (Scratch::bytes(D, G) + 15) / 16 * 16 + (reinterpret_cast<intptr_t>(rows_) & 15);
  }

  __device__ __forceinline__ void run(int64_t image) {
    if (!load(image)) clear();
    for (int32_t i = detections_ + warp_.lane(); i < segment_.detections; i += 32)
      write_padding(rule_, row(i));
    if (warp_.lane() == 0)
      write_image(rule_, segment_, task_.out.images + image * kImageColumns, ground_truth_hash_, record_hash_,
                  detection_extent_, ground_truth_extent_);
    order();
    lowest_ = lowest_threshold(rule_);
    const Chunk chunk = Chunk::at(rule_, 0);
    gather(chunk);
    find_candidates(chunk);
    match(chunk);
    for (int64_t first = 64; first < rule_.settings(); first += 64) match_again(Chunk::at(rule_, first));
    if (in_shared()) copy_bytes(warp_, table_rows(), rows_, segment_.detections * rule_.detection_bytes());
  }

 private:
  __device__ __forceinline__ bool in_shared() const {
    return shared_bytes_of(rule_, segment_.detections, segment_.ground_truths) <= task_.shared_bytes;
  }
  __device__ __forceinline__ Scratch scratch(unsigned char* shared) const {
    const int64_t before = Scratch::bytes(segment_.first_detection, segment_.first_ground_truth);
    return Scratch(in_shared() ? shared : task_.workspace + before, static_cast<int32_t>(segment_.detections),
                   static_cast<int32_t>(segment_.ground_truths));
  }
  __device__ __forceinline__ uint8_t* table_rows() const {
    return task_.out.detection(rule_, segment_.first_detection);
  }
  __device__ __forceinline__ uint8_t* row(int32_t i) const { return rows_ + i * rule_.detection_bytes(); }

  // False when a row cannot be matched: the image then counts as empty.
  __device__ __forceinline__ bool load(int64_t image) {
    int64_t detections, ground_truths, error = count_rows(segment_, image, detections, ground_truths);
    detections_ = static_cast<int32_t>(detections);
    gts_ = static_cast<int32_t>(ground_truths);
    if (error == kNoError) {
      const int64_t first = load_detections(image), second = load_ground_truths(image);
      error = first < second ? first : second;
    }
    if (error != kNoError)
      atomicMin(reinterpret_cast<long long*>(task_.error), static_cast<long long>(error));
    record_hash_ = warp_.sum(record_hash_);
    ground_truth_hash_ = warp_.sum(ground_truth_hash_);
    join(detection_extent_);
    join(ground_truth_extent_);
    return warp_.ballot(error != kNoError) == 0;
  }

  __device__ __forceinline__ void join(BoxExtent& extent) const {
    extent.negative = static_cast<int64_t>(warp_.sum(static_cast<uint64_t>(extent.negative)));
    extent.reach = warp_.max(extent.reach);
  }

  __device__ __forceinline__ void clear() {
    detections_ = gts_ = 0;
    record_hash_ = ground_truth_hash_ = 0;
    detection_extent_ = ground_truth_extent_ = BoxExtent{};
    for (int32_t j = warp_.lane(); j < segment_.ground_truths; j += 32)
      write_ground_truth(rule_, task_.out.ground_truth(rule_, segment_.first_ground_truth + j), 0, 0, 0.0,
                         false);
  }

  // The first error of this lane's rows; likewise below.
  __device__ __forceinline__ int64_t load_detections(int64_t image) {
    int64_t error = kNoError;
    for (int32_t i = warp_.lane(); i < detections_; i += 32) {
      const LoadedDetection d = load_detection(rule_, segment_, i);
      if (d.error && error == kNoError) error = box_error(image, i, d.error);
      detection_extent_.add(d.box);
      if (rule_.options & kHashed) record_hash_ += hash_detection(i, d.box, d.score, d.label);
      s_.detections()[i] = Ranked{descending_key(d.score), cell_label(d.label), i};
    }
    return error;
  }

  __device__ __forceinline__ int64_t load_ground_truths(int64_t image) {
    int64_t error = kNoError;
    for (int32_t j = warp_.lane(); j < segment_.ground_truths; j += 32) {
      const LoadedGroundTruth t = j < gts_ ? load_ground_truth(rule_, segment_, j) : LoadedGroundTruth{};
      if (t.error && error == kNoError) error = box_error(image, j, t.error);
      write_ground_truth(rule_, task_.out.ground_truth(rule_, segment_.first_ground_truth + j), t.label,
                         t.flags, t.area, j < gts_);
      if (j >= gts_) continue;
      ground_truth_extent_.add(t.box);
      if (rule_.options & kHashed) ground_truth_hash_ += hash_ground_truth(t.box, t.label, t.flags, t.area);
      s_.taken()[j] = truth_key(cell_label(t.label), j);
    }
    return error;
  }

  __device__ __forceinline__ int32_t cell_label(int64_t label) const {
    return (rule_.options & kAgnostic) ? 0 : static_cast<int32_t>(label);
  }

  // A word in the order of (label, row), both of which can be read back.
  __device__ __forceinline__ static uint64_t truth_key(int32_t label, int32_t row) {
    return static_cast<uint64_t>(static_cast<uint32_t>(label) ^ 0x80000000u) << 32 |
           static_cast<uint32_t>(row);
  }

  __device__ __forceinline__ void order() {
    sort_network(warp_, s_.detections(), static_cast<uint32_t>(detections_));
    sort_network(warp_, s_.taken(), static_cast<uint32_t>(gts_));
    for (int32_t at = warp_.lane(); at < gts_; at += 32) {
      s_.labels()[at] = static_cast<int32_t>(static_cast<uint32_t>(s_.taken()[at] >> 32) ^ 0x80000000u);
      s_.names()[at] = static_cast<int32_t>(s_.taken()[at]);
    }
    warp_.sync();
  }

  __device__ __forceinline__ void gather(const Chunk& chunk) {
    for (int32_t at = warp_.lane(); at < gts_; at += 32) {
      const LoadedGroundTruth t = load_ground_truth(rule_, segment_, s_.names()[at]);
      s_.boxes()[at] = t.box;
      s_.flags()[at] = static_cast<uint8_t>(t.flags);
      s_.counts()[at] = counting_settings(rule_, chunk, t.flags, t.area);
      s_.taken()[at] = 0;
    }
    warp_.sync();
  }

  // Writes the row of every detection as if it matched nothing, and leaves in s_.detections() those that may
  // match.
  __device__ __forceinline__ void find_candidates(const Chunk& chunk) {
    int32_t begin = 0;  // where the cell of the last detection seen begins
    candidates_ = 0;
    for (int32_t base = 0; base < detections_; base += 32) {
      const int32_t at = base + warp_.lane();
      Ranked item{};
      bool begins = false, reaches = false;
      if (at < detections_) {
        item = s_.detections()[at];
        begins = at > 0 && s_.detections()[at - 1].label != item.label;
      }
      const uint32_t all = warp_.ballot(begins), mine = all & (0xffffffffu >> (31 - warp_.lane()));
      if (at < detections_) reaches = describe(chunk, item, at - (mine ? base + last_bit(mine) : begin));
      if (all) begin = base + last_bit(all);
      const uint32_t kept = warp_.ballot(reaches);
      warp_.sync();  // every lane has read its items: none that is still needed lies below `at`
      if (reaches) s_.detections()[candidates_ + count_bits(kept & ((1u << warp_.lane()) - 1))] = item;
      candidates_ += count_bits(kept);
      warp_.sync();
    }
  }

  __device__ __forceinline__ static int last_bit(uint32_t word) { return 31 - __clz(static_cast<int>(word)); }

  // Whether the detection is within the limits and overlaps a ground truth of its cell enough.
  __device__ __forceinline__ bool describe(const Chunk& chunk, const Ranked& item, int32_t rank) {
    const LoadedDetection d = load_detection(rule_, segment_, item.row);
    write_detection(row(item.row), d.score, d.label, bucket_of(rule_, rank));
    const bool within = rank < rule_.max_detections();
    write_unmatched(chunk, item.row, d.box, within);
    if (!within) return false;
    for (int32_t j = first_ground_truth(item.label); j < gts_ && s_.labels()[j] == item.label; ++j)
      if (box_iou<true>(d.box, s_.boxes()[j], s_.flags()[j] & kCrowd) >= lowest_) return true;
    return false;
  }

  __device__ __forceinline__ void write_unmatched(const Chunk& chunk, int32_t i, const Box& box,
                                                  bool within) {
    const double area = detection_area(segment_, box, i);
    write_settings(rule_, row(i), chunk, Outcome{0, within ? chunk.outside(rule_, area) : 0});
  }

  __device__ __forceinline__ int32_t first_ground_truth(int32_t label) const {
    return partition_point(gts_, [=](int32_t at) { return s_.labels()[at] < label; });
  }

  // A lane a cell of ground truths; a cell wider than the warp takes the whole warp.
  __device__ __forceinline__ void match(const Chunk& chunk) {
    for (int32_t base = 0; base < gts_; base += 32) {
      const int32_t begin = base + warp_.lane();
      int32_t size = 0;
      if (begin < gts_ && (begin == 0 || s_.labels()[begin - 1] != s_.labels()[begin]))
        while (size <= kWideCell && begin + size < gts_ && s_.labels()[begin + size] == s_.labels()[begin])
          ++size;
      if (size > 0 && size <= kWideCell) match_cell(Serial(), chunk, begin, size);
      for (uint32_t wide = warp_.ballot(size > kWideCell); wide; wide &= wide - 1)
        match_wide_cell(chunk, base + __ffs(static_cast<int>(wide)) - 1);
    }
    warp_.sync();
  }

  __device__ __forceinline__ void match_wide_cell(const Chunk& chunk, int32_t begin) {
    const int32_t label = s_.labels()[begin];
    const int32_t size =
        partition_point(gts_ - begin, [=](int32_t at) { return s_.labels()[begin + at] <= label; });
    match_cell(warp_, chunk, begin, size);
  }

  template <class Group>
  __device__ __forceinline__ void match_cell(const Group& group, const Chunk& chunk, int32_t begin,
                                             int32_t size) {
    const int32_t label = s_.labels()[begin];
    const Cell cell{s_.boxes() + begin, s_.flags() + begin, s_.counts() + begin,
                    s_.taken() + begin, s_.ious() + begin,  size};
    int32_t at = partition_point(candidates_, [=](int32_t i) { return s_.detections()[i].label < label; });
    for (; at < candidates_ && s_.detections()[at].label == label; ++at) {
      const int32_t i = s_.detections()[at].row;
      const Box box = load_detection(rule_, segment_, i).box;
      const Outcome outcome = match_detection(
          group, rule_, chunk, cell, box, detection_area(segment_, box, i), frees(segment_, i), lowest_,
          task_.out.match(rule_, segment_.first_detection + i, chunk.first), s_.names() + begin);
      if (group.lane() == 0) write_settings(rule_, row(i), chunk, outcome);
    }
  }

  // Further lanes: a detection that is beyond the limits says so in its row.
  __device__ __forceinline__ void match_again(const Chunk& chunk) {
    for (int32_t i = warp_.lane(); i < detections_; i += 32)
      write_unmatched(chunk, i, load_detection(rule_, segment_, i).box, row(i)[12] < rule_.num_limits);
    gather(chunk);
    match(chunk);
  }

  const Warp warp_{};
  const MatchTask& task_;
  const Rule& rule_;
  const Segment& segment_;
  const Scratch s_;
  uint8_t* rows_;  // where rows are put together: in shared memory, or in the table
  int32_t detections_ = 0, gts_ = 0, candidates_ = 0;
  uint64_t record_hash_ = 0, ground_truth_hash_ = 0;
  BoxExtent detection_extent_, ground_truth_extent_;
  double lowest_ = 0.0;
};

__global__ void __launch_bounds__(32, 16) match_boxes_kernel(const __grid_constant__ MatchTask task) {
  VALOR_SHARED(Rule, rule);
  VALOR_SHARED(Segment, segment);
  VALOR_SHARED(int64_t, numbers, [kNumbersByValue]);
  VALOR_DYNAMIC_SHARED(unsigned char, shared);
  const int64_t image = blockIdx.x;
  const int64_t* table = task.table ? task.table : task.segments;
  for (int f = threadIdx.x; f < Segment::kFields; f += 32)
    reinterpret_cast<int64_t*>(&segment)[f] = table[f * task.images + image];
  for (int i = threadIdx.x; i < kNumbersByValue; i += 32) numbers[i] = task.numbers[i];
  if (threadIdx.x == 0) {
    rule = task.rule;
    if (rule.thresholds == 0) rule.place(reinterpret_cast<int64_t>(numbers));
  }
  __syncwarp();
  ImageWarp(task, rule, segment, shared).run(image);
}

// Puts what the kernel's parameters have room for there; false when it has to be on the device and is not.
bool fill(MatchTask& task, const int64_t* segments, const int64_t* device_numbers) {
  Rule& rule = task.rule;
  const int64_t numbers = rule.num_thresholds + 2 * rule.num_areas + rule.num_limits;
  if (device_numbers) {
    rule.place(reinterpret_cast<int64_t>(device_numbers));
  } else {
    if (numbers > kNumbersByValue) return false;
    int64_t* to = task.numbers;
    memcpy(to, rule.threshold(), 8 * rule.num_thresholds);
    memcpy(to + rule.num_thresholds, rule.area(), 16 * rule.num_areas);
    memcpy(to + rule.num_thresholds + 2 * rule.num_areas, rule.limit(), 8 * rule.num_limits);
    rule.thresholds = rule.area_ranges = rule.limits = 0;
  }
  if (task.table) return true;
  if (task.images > kImagesByValue) return false;
  memcpy(task.segments, segments, sizeof(int64_t) * Segment::kFields * task.images);
  return true;
}

// What the largest image that fits takes of shared memory; false when the workspace is too small for the
// others, or an image too large.
bool measure(MatchTask& task, const int64_t* segments, int64_t workspace_bytes) {
  bool enough = true;
  for (int64_t i = 0; i < task.images; ++i) {
    const Segment s = Segment::at(segments, task.images, i);
    if (s.detections > INT32_MAX || s.ground_truths > INT32_MAX) return false;
    const int64_t shared = shared_bytes_of(task.rule, s.detections, s.ground_truths);
    if (shared <= kMostShared)
      task.shared_bytes = shared > task.shared_bytes ? shared : task.shared_bytes;
    else
      enough &= Scratch::bytes(s.first_detection + s.detections, s.first_ground_truth + s.ground_truths) <=
                workspace_bytes;
  }
  return enough;
}

}  // namespace
}  // namespace valor

// Matches a batch. `segments` (see core/match_batch.h) and the numbers that `rule_words` points to lie on the
// host; more than 16 images, or more than 64 numbers, need copies of theirs on the device, else null.
// `error` holds kNoError and receives the first error, whose image counts as empty. `workspace` has 16 bytes
// a detection and 72 a ground truth.
VALOR_API int32_t valor_match_boxes_cuda(const int64_t* segments, const int64_t* device_segments,
                                         int64_t num_images, const void* rule_words,
                                         const int64_t* device_numbers, uint8_t* detections,
                                         uint8_t* ground_truths, int64_t* images, int32_t* matches,
                                         int64_t* error, void* workspace, int64_t workspace_bytes,
                                         void* stream) {
  using namespace valor;
  if (num_images == 0) return 0;
  MatchTask task = {};
  task.rule = Rule::of(rule_words);
  task.out =
      Output{detections, ground_truths, images, (task.rule.options & kWantMatches) ? matches : nullptr};
  task.error = error;
  task.workspace = static_cast<unsigned char*>(workspace);
  task.images = num_images;
  task.table = device_segments;
  if (!measure(task, segments, workspace_bytes) || !fill(task, segments, device_numbers))
    return kInvalidValue;
  return VALOR_LAUNCH(match_boxes_kernel, static_cast<unsigned>(num_images), 32, task.shared_bytes, stream,
                      task);
}
