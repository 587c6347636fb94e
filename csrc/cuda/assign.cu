// Assignment on CUDA: one warp an image, so that a batch is one launch and nothing waits.
#include "assign_plan.h"
#include "keep_inputs.h"
#include "launch.h"
#include "upload.h"

namespace valor {
namespace {

constexpr int kNumbersByValue = 64;        // likewise words of thresholds, area ranges and limits
constexpr int64_t kMostUploaded = 10'000;  // words of a table: 20 launches
constexpr int32_t kInvalidValue = 1;       // cudaErrorInvalidValue

struct AssignTask {
  Rule rule;  // addresses of numbers are 0 where `numbers` holds them
  Output out;
  Pairs pairs;
  int64_t* error;
  unsigned char* workspace;
  int64_t images, first;  // the first that this launch works on
  int64_t shared_bytes;   // of a block of it
  int64_t elsewhere;      // images that need no more shared memory are left to the other kernel; -1: none
  int64_t detections, ground_truths;  // of each image, if they are equal; else -1
  const int64_t* table;               // [kImageFields, images] on the device; null: `words`
  int64_t numbers[kNumbersByValue];
  int64_t words[kImageFields * kImagesByValue];  // such a table; of equal images the words of Batch
};
static_assert(sizeof(AssignTask) <= 4096, "kernel parameters are limited to 4 KiB");
static_assert(sizeof(Batch) <= sizeof(AssignTask::words), "the words of Batch have room");

struct Image {
  int64_t number, workspace;
};

// Every lane gets the image; its segment is put together in shared memory.
template <class Source>
__device__ __forceinline__ Image find_image(const AssignTask& task, int64_t at, Segment& segment) {
  if (task.detections >= 0) {
    if (threadIdx.x == 0) {
      Batch batch;
      memcpy(&batch, task.words, sizeof batch);
      segment = batch.segment(at, at * task.detections, task.detections, at * task.ground_truths,
                              task.ground_truths);
    }
    const int64_t bytes = ImageMemory::bytes(task.detections, task.ground_truths, Source::kGroundTruthBytes);
    return {at, task.workspace ? at * bytes : -1};
  }
  const int64_t* table = task.table ? task.table : task.words;
  for (int f = threadIdx.x; f < Segment::kFields; f += 32)
    reinterpret_cast<int64_t*>(&segment)[f] = table[f * task.images + at];
  return {table[kImageNumber * task.images + at], table[kWorkspace * task.images + at]};
}

// With kLarge settings may be more than 64, numbers lie on the device and images may work in global memory.
template <class Source, RuleKind kKind, bool kLarge, bool kMatches>
__global__ void __launch_bounds__(32, 16) assign_kernel(const __grid_constant__ AssignTask task) {
  VALOR_SHARED(Segment, segment);
  VALOR_SHARED(int64_t, numbers, [kNumbersByValue]);
  VALOR_DYNAMIC_SHARED(unsigned char, shared);
  static_assert(sizeof(Segment) + sizeof(task.numbers) <= kFixedShared, "static shared memory has room");
  const Image image = find_image<Source>(task, task.first + blockIdx.x, segment);
  for (int i = threadIdx.x; i < kNumbersByValue; i += 32) numbers[i] = task.numbers[i];
  Rule rule = task.rule;
  Source::narrow(rule);
  if (!kLarge || rule.thresholds == 0) rule.place(reinterpret_cast<int64_t>(numbers));
  const Warp warp;
  warp.sync();

  const ImageCounts counts = ImageCounts::of(segment, image.number);
  const int64_t bytes =
      ImageMemory::bytes(counts.detections, counts.ground_truths, Source::kGroundTruthBytes);
  const int64_t need = ImageMemory::shared_bytes(bytes, rule, counts.detections);
  if (kLarge ? need <= task.elsewhere : need > task.shared_bytes) return;
  const bool in_shared = !kLarge || need <= task.shared_bytes;
  const ImageMemory memory(in_shared ? shared : task.workspace + image.workspace, counts.detections,
                           counts.ground_truths);
  uint8_t* const table_rows = task.out.detection(rule, segment.first_detection);
  uint8_t* rows = table_rows;
  if (in_shared) rows = shared + bytes + (reinterpret_cast<intptr_t>(table_rows) & 15);
  const Source source(rule, segment, task.pairs, memory.boxes());
  ImageWarp<Source, kKind, kLarge, kMatches> worker(rule, segment, counts, task.out, source, memory, rows);
  const int64_t error = worker.run(image.number);
  if (error != kNoError) atomicMin(reinterpret_cast<long long*>(task.error), static_cast<long long>(error));
  if (in_shared) copy_bytes(warp, table_rows, rows, worker.detections() * rule.detection_bytes());
}

// Puts what the kernel's parameters have room for there; false when it has to be on the device and is not.
bool place_numbers(AssignTask& task, const int64_t* device_numbers) {
  Rule& rule = task.rule;
  if (device_numbers) {
    rule.place(reinterpret_cast<int64_t>(device_numbers));
    return true;
  }
  if (rule.numbers() > kNumbersByValue) return false;
  memcpy(task.numbers, rule.threshold(), 8 * rule.numbers());
  rule.thresholds = rule.area_ranges = rule.limits = 0;
  return true;
}

template <class Source, RuleKind kKind, bool kLarge, bool kMatches>
int32_t launch_images(AssignTask& task, int64_t first, int64_t count, int64_t shared_bytes, void* stream) {
  if (count == 0) return 0;
  task.first = first;
  task.shared_bytes = shared_bytes;
  if (shared_bytes + kFixedShared > kUnaskedShared) {
    SharedRoom room;
    if (const int32_t status = find_shared_room(room)) return status;
    if (const int32_t status =
            allow_shared(assign_kernel<Source, kKind, kLarge, kMatches>, room.of_block - kFixedShared))
      return status;
  }
  return VALOR_LAUNCH((assign_kernel<Source, kKind, kLarge, kMatches>), static_cast<unsigned>(count), 32,
                      static_cast<size_t>(shared_bytes), stream, task);
}

// Images that work in global memory, or all of a rule with many settings, take a kernel that is larger; so do
// those of Open Images, which have few settings in few batches. Of padded images counts tell which they are,
// and the host does not know them: each kernel leaves to the other what is not its own.
template <class Usual, class Any>
int32_t launch_all(AssignTask& task, const AssignPlan& plan, void* stream) {
  const int64_t shared = plan.shared_bytes, begin = task.detections >= 0 ? 0 : plan.large;
  const int64_t rest = task.images - begin;
  task.elsewhere = -1;
  if (task.rule.kind == kGroupOf)
    return launch_images<Any, kGroupOf, true, true>(task, 0, task.images, shared, stream);
  const bool many = task.rule.settings() > 64 || task.rule.thresholds != 0;
  if (many) return launch_images<Any, kCoco, true, true>(task, 0, task.images, shared, stream);
  if (task.detections >= 0) task.elsewhere = shared;
  if (const int32_t status = launch_images<Any, kCoco, true, true>(task, 0, plan.large, 0, stream))
    return status;
  if (!Usual::serves(task.rule))
    return launch_images<Any, kCoco, false, true>(task, begin, rest, shared, stream);
  if (task.out.matches) return launch_images<Usual, kCoco, false, true>(task, begin, rest, shared, stream);
  return launch_images<Usual, kCoco, false, false>(task, begin, rest, shared, stream);
}

}  // namespace
}  // namespace valor

// Plans a batch: `plan` receives AssignPlan. `words` are the Segments [fields, images], and `table` receives
// [fields + 2, images] of them, which valor_assign_cuda takes; of images with `equal` rows each (detections,
// ground truths) there is no table, and both may be null.
VALOR_API int32_t valor_plan_assign_cuda(const int64_t* words, int64_t images, const int64_t* equal,
                                         const void* rule_words, int64_t stored, int64_t* table,
                                         int64_t* plan) {
  using namespace valor;
  const Rule rule = Rule::of(rule_words);
  const int64_t box_bytes = stored ? StoredSource::kGroundTruthBytes : BoxSource<true>::kGroundTruthBytes;
  SharedRoom room;
  if (const int32_t status = find_shared_room(room)) return status;
  const AssignPlan found = equal ? plan_equal(rule, images, equal[0], equal[1], box_bytes, room)
                                 : plan_images(rule, words, images, box_bytes, room, table);
  memcpy(plan, &found, sizeof found);
  return 0;
}

// Assigns a batch as planned. `table` lies on the host and, of more than 16 images, `device_table` holds it
// on the device; of images with `equal` rows `table` holds the words of Batch. `device_numbers` holds the
// numbers of `rule_words` if they are more than 64. `stored` are the words of Pairs, or null. `error`
// receives the first error if that is smaller than what it holds; the image of an error counts as empty.
// `workspace` has the bytes that the plan asks for.
VALOR_API int32_t valor_assign_cuda(const int64_t* table, const int64_t* device_table, int64_t images,
                                    const int64_t* equal, const int64_t* plan_words, const void* rule_words,
                                    const int64_t* device_numbers, const int64_t* stored, uint8_t* detections,
                                    uint8_t* ground_truths, int64_t* image_rows, int32_t* matches,
                                    int64_t* error, void* workspace, void* stream) {
  using namespace valor;
  if (images == 0) return 0;
  AssignPlan plan;
  memcpy(&plan, plan_words, sizeof plan);
  AssignTask task = {};
  task.rule = Rule::of(rule_words);
  if (stored) memcpy(&task.pairs, stored, sizeof task.pairs);
  task.out =
      Output{detections, ground_truths, image_rows, (task.rule.options & kWantMatches) ? matches : nullptr};
  task.error = error;
  task.workspace = plan.workspace_bytes ? static_cast<unsigned char*>(workspace) : nullptr;
  task.images = images;
  task.detections = equal ? equal[0] : -1;
  task.ground_truths = equal ? equal[1] : -1;
  task.table = device_table;
  if (task.rule.kind != kCoco && task.rule.kind != kGroupOf) return kInvalidValue;
  if (!place_numbers(task, device_numbers)) return kInvalidValue;
  if (!equal && !device_table && images > kImagesByValue) return kInvalidValue;
  if (!device_table) memcpy(task.words, table, equal ? sizeof(Batch) : 8 * kImageFields * images);
  if (stored) return launch_all<StoredSource, StoredSource>(task, plan, stream);
  return launch_all<BoxSource<true>, BoxSource<false>>(task, plan, stream);
}

// Plans and assigns a batch of boxes whose images have room in shared memory, by one call of the host.
// `boxes` is a PlainBoxes and the words behind it. `device_table` has room for [fields + 2, images] words on
// the device; of at most 16 images, or equal ones, it may be null. `error` receives the first error if that
// is smaller than `error_before`. `kept`, if it is not null, receives copies of columns, where PlainBoxes
// says. `served` receives 0 where nothing was done: an image needs a workspace, the numbers of the rule lie
// on the device, or the table of the images has more than kMostUploaded words. Else it receives 1.
VALOR_API int32_t valor_assign_plain_cuda(const void* boxes, const void* rule_words, int64_t* device_table,
                                          uint8_t* detections, uint8_t* ground_truths, int64_t* image_rows,
                                          const int64_t* error_before, int64_t* error, uint8_t* kept,
                                          int64_t* served, void* stream) {
  using namespace valor;
  *served = 0;
  PlainBoxes head;
  memcpy(&head, boxes, sizeof head);
  const int64_t* const words = static_cast<const int64_t*>(boxes) + PlainBoxes::kFields;
  const int64_t rows[2] = {head.each, head.gt_each}, images = head.images;
  const int64_t* const equal = head.equal() ? rows : nullptr;
  const int64_t table_words = kImageFields * images;
  std::vector<int64_t> table(equal ? 0 : table_words);
  int64_t plan[3] = {};
  static_assert(sizeof plan == sizeof(AssignPlan), "the words of AssignPlan have room");
  if (const int32_t status = valor_plan_assign_cuda(words, images, equal, rule_words, 0, table.data(), plan))
    return status;
  AssignPlan found;
  memcpy(&found, plan, sizeof found);
  if (found.workspace_bytes > 0 || Rule::of(rule_words).numbers() > kNumbersByValue) return 0;
  const bool uploads = !equal && images > kImagesByValue;
  if (uploads && table_words > kMostUploaded) return 0;
  if (uploads) {
    if (const int32_t status = valor_upload_cuda(table.data(), table_words, device_table, stream))
      return status;
  }
  const int64_t *const host_table = equal ? words : table.data(), *const lies =
                                                                      uploads ? device_table : nullptr;
  if (const int32_t status = keep_inputs(head, host_table, lies, kept, error_before, error, stream))
    return status;
  if (const int32_t status =
          valor_assign_cuda(host_table, lies, images, equal, plan, rule_words, nullptr, nullptr, detections,
                            ground_truths, image_rows, nullptr, error, nullptr, stream))
    return status;
  *served = 1;
  return 0;
}
