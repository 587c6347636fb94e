// Plain tensors of boxes in lists of dicts, or padded in two dicts, to the words that CUDA kernels read: one
// look at each tensor in place of seven calls of Python.
#include "../core/plain_boxes.h"

#include <algorithm>

#include "tensor_objects.h"

namespace valor {
namespace {

enum BoxKey { kBoxes, kScores, kLabels, kCrowdFlag, kArea, kCounts, kImageId, kBoxKeys };
enum BoxColumn {
  kBoxColumn,
  kScoreColumn,
  kLabelColumn,
  kGtBoxColumn,
  kGtLabelColumn,
  kFlagColumn,
  kAreaColumn
};
constexpr int kBoxColumns = 7;
constexpr BoxKey kKeys[kBoxColumns] = {kBoxes, kScores, kLabels, kBoxes, kLabels, kCrowdFlag, kArea};
constexpr bool kIsFloat[kBoxColumns] = {true, true, false, true, false, false, true};
constexpr int64_t kMostImages = 1 << 20;

struct BoxKeys {
  Object* names[kBoxKeys];
  explicit BoxKeys(const Items& settings) {
    for (int k = 0; k < kBoxKeys; ++k) names[k] = settings[TensorReader::kSettings + k];
  }
  // Borrowed; null where a dict has no such key.
  Object* find(Object* item, BoxKey key) const { return item_of(item, names[key]); }
};

// What is given back: a head and words behind it, in bytes of Python that nobody has seen yet.
class WordBytes {
 public:
  explicit WordBytes(int64_t words) : object_(host.bytes_new(nullptr, 8 * (PlainBoxes::kFields + words))) {
    char* data = nullptr;
    intptr_t bytes = 0;
    require(host.bytes_get(object_.get(), &data, &bytes) == 0);
    memset(data, 0, static_cast<size_t>(bytes));
    words_ = reinterpret_cast<int64_t*>(data);
  }
  int64_t* words() const { return words_ + PlainBoxes::kFields; }
  Object* give(PlainBoxes& head, bool flags, bool areas) {
    head.place(flags, areas);
    memcpy(words_, &head, sizeof head);
    return object_.give();
  }

 private:
  Held object_;
  int64_t* words_;
};

int64_t type_of(const TensorView& view, int column) {
  return kIsFloat[column] ? static_cast<int64_t>(view.float_type()) : static_cast<int64_t>(view.int_type());
}

int64_t* types_of(PlainBoxes& head) { return &head.boxes_type; }

// Whether a tensor of boxes has `rows` of four; an empty one may have any shape, like torch.tensor([]).
bool has_rows(const TensorView& view, int64_t rows) {
  return view.dimensions == 2 ? view.shape[1] == 4 && view.shape[0] == rows : false;
}

// Images in lists, image by image.
class ListReader {
 public:
  ListReader(const Items& settings, int64_t images)
      : read_(settings), keys_(settings), images_(images), block_(Segment::kFields * images) {
    head_.images = images;
    head_.each = head_.gt_each = -1;
  }

  void add(Object* pred, Object* truth, int64_t image) {
    const Held mine = Held::of(pred), true_ones = Held::of(truth);  // a call may run code that drops them
    require(is(pred, host.dict) && is(truth, host.dict));
    Segment segment{};
    segment.first_detection = head_.detections;
    segment.first_ground_truth = head_.ground_truths;
    segment.labels = column(pred, kLabelColumn, segment.detections);
    segment.boxes = column(pred, kBoxColumn, segment.detections);
    segment.scores = column(pred, kScoreColumn, segment.detections);
    segment.gt_labels = column(truth, kGtLabelColumn, segment.ground_truths);
    segment.gt_boxes = column(truth, kGtBoxColumn, segment.ground_truths);
    segment.gt_flags = column(truth, kFlagColumn, segment.ground_truths);
    segment.gt_areas = column(truth, kAreaColumn, segment.ground_truths);
    add_id(truth, segment);
    head_.detections += segment.detections;
    head_.ground_truths += segment.ground_truths;
    head_.most = std::max(head_.most, segment.detections);
    int64_t fields[Segment::kFields];
    memcpy(fields, &segment, sizeof segment);
    for (int f = 0; f < Segment::kFields; ++f) block_.words()[f * images_ + image] = fields[f];
    first_ = false;
  }

  Object* give() { return block_.give(head_, has_[kFlagColumn], has_[kAreaColumn]); }

 private:
  // The address of a column, of which labels say how many rows there are; 0 for one that no image has.
  int64_t column(Object* item, BoxColumn which, int64_t& rows) {
    Object* const found = keys_.find(item, kKeys[which]);
    if (first_) has_[which] = found != nullptr;
    require(has_[which] == (found != nullptr));
    if (!found) {
      require(which == kFlagColumn || which == kAreaColumn);
      return 0;
    }
    const Held tensor = Held::of(found);
    const TensorView view = read_(found);
    const int64_t type = type_of(view, which), elements = view.elements();
    if (first_) types_of(head_)[which] = type;
    require(types_of(head_)[which] == type);
    const bool boxes = which == kBoxColumn || which == kGtBoxColumn;
    if (which == kLabelColumn || which == kGtLabelColumn) rows = elements;
    require(boxes ? has_rows(view, rows) || (rows == 0 && elements == 0) : elements == rows);
    return view.address();
  }

  void add_id(Object* truth, Segment& segment) {
    Object* const found = keys_.find(truth, kImageId);
    const IdKind kind = !found || found == host.none ? kNoId : is(found, host.integer) ? kNumber : kTensor;
    if (first_) ids_ = kind;
    require(ids_ == kind);
    segment.has_id = kind != kNoId;
    if (kind == kNumber) segment.id = integer_of(Held::of(found).get());
    if (kind != kTensor) return;
    const Held tensor = Held::of(found);
    const TensorView view = read_(found);
    require(view.int_type() == kInt64 && view.elements() == 1);
    segment.id_address = view.address();
  }

  enum IdKind { kNoId, kNumber, kTensor };
  TensorReader read_;
  BoxKeys keys_;
  int64_t images_;
  WordBytes block_;
  PlainBoxes head_{};
  IdKind ids_ = kNoId;
  bool first_ = true, has_[kBoxColumns] = {};
};

// Images padded to one size in a tensor for each column.
class PaddedReader {
 public:
  explicit PaddedReader(const Items& settings)
      : read_(settings), keys_(settings), block_(sizeof(Batch) / 8) {}

  Object* read(Object* preds, Object* target) {
    read_labels(preds, kLabelColumn, head_.each);
    read_labels(target, kGtLabelColumn, head_.gt_each);
    head_.detections = head_.images * head_.each;
    head_.ground_truths = head_.images * head_.gt_each;
    place(preds, kBoxColumn, batch_.boxes, batch_.stride.boxes);
    place(preds, kScoreColumn, batch_.scores, batch_.stride.scores);
    place(preds, kLabelColumn, batch_.labels, batch_.stride.labels);
    place(target, kGtBoxColumn, batch_.gt_boxes, batch_.stride.gt_boxes);
    place(target, kGtLabelColumn, batch_.gt_labels, batch_.stride.gt_labels);
    place(target, kFlagColumn, batch_.gt_flags, batch_.stride.gt_flags);
    place(target, kAreaColumn, batch_.gt_areas, batch_.stride.gt_areas);
    batch_.images = head_.images;
    batch_.counts = of_images(keys_.find(preds, kCounts));
    batch_.gt_counts = of_images(keys_.find(target, kCounts));
    Object* const ids = keys_.find(target, kImageId);
    batch_.image_ids = ids == host.none ? 0 : of_images(ids);
    head_.most = batch_.counts ? 0 : head_.each;
    memcpy(block_.words(), &batch_, sizeof batch_);
    return block_.give(head_, batch_.stride.gt_flags != 0, batch_.stride.gt_areas != 0);
  }

 private:
  // Labels [B, N] say how many rows there are.
  void read_labels(Object* side, BoxColumn which, int64_t& room) {
    const Held tensor = Held::of(keys_.find(side, kKeys[which]));
    const TensorView view = read_(tensor.get());
    require(view.dimensions == 2 && view.shape[0] > 0 && (!head_.images || view.shape[0] == head_.images));
    head_.images = view.shape[0];
    room = view.shape[1];
  }

  void place(Object* side, BoxColumn which, int64_t& address, int64_t& stride) {
    Object* const found = keys_.find(side, kKeys[which]);
    require(found || which == kFlagColumn || which == kAreaColumn);
    if (!found) return;
    const Held tensor = Held::of(found);
    const TensorView view = read_(found);
    const bool boxes = which == kBoxColumn || which == kGtBoxColumn;
    const int64_t room = which <= kLabelColumn ? head_.each : head_.gt_each;
    require(view.dimensions == (boxes ? 3 : 2) && view.shape[0] == head_.images && view.shape[1] == room);
    require(!boxes || view.shape[2] == 4);
    types_of(head_)[which] = type_of(view, which);
    address = view.address();
    stride = view.bits / 8 * (boxes ? 4 : 1);
  }

  // int64 [B]; 0 for null.
  int64_t of_images(Object* found) {
    if (!found) return 0;
    const Held tensor = Held::of(found);
    const TensorView view = read_(found);
    require(view.int_type() == kInt64 && view.dimensions == 1 && view.shape[0] == head_.images);
    return view.address();
  }

  TensorReader read_;
  BoxKeys keys_;
  WordBytes block_;
  PlainBoxes head_{};
  Batch batch_{};
};

}  // namespace
}  // namespace valor

using namespace valor;

// Bytes of PlainBoxes and the words behind it, of lists of dicts or of two dicts of padded tensors; None for
// what is not plain. `settings` is a tuple: what TensorReader takes, then the keys in the order of BoxKey.
VALOR_API Object* valor_read_boxes_cpu(Object* settings, Object* preds, Object* target) {
  return answer([&]() -> Object* {
    const Items given(settings);
    if (is(preds, host.dict) && is(target, host.dict)) return PaddedReader(given).read(preds, target);
    require(is(preds, host.list) && is(target, host.list));
    const Items items(preds), truths(target);
    require(items.size() > 0 && items.size() == truths.size() && items.size() <= kMostImages);
    ListReader reader(given, items.size());
    for (int64_t i = 0; i < items.size(); ++i) reader.add(items[i], truths[i], i);
    return reader.give();
  });
}
