// Rotated boxes on the CPU: loading of rows, IoU of all pairs, and the pairs of a batch for matching.
#include "../core/rotated.h"

#include <algorithm>
#include <vector>

#include "../core/ragged.h"
#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

struct Found {
  double similarity;
  int32_t gt;
  bool operator<(const Found& other) const {
    return similarity != other.similarity ? similarity > other.similarity : gt > other.gt;
  }
};

// The pairs of one image: ground truths of a class side by side, so that a detection looks at no other.
class ImagePairs {
 public:
  // `kFill` writes the pairs into their rooms, else offset()[d + 1] receives how many detection d may have.
  template <bool kFill>
  void run(const QuadBatch& batch, int64_t image) {
    const int64_t first = batch.first_detections()[image], end = batch.first_detections()[image + 1];
    first_gt_ = batch.first_gts()[image];
    const int64_t valid = valid_rows(batch.counts, image, end - first);
    group(batch, valid_rows(batch.gt_counts, image, batch.first_gts()[image + 1] - first_gt_));
    for (int64_t row = first; row < end; ++row) {
      const int32_t rooms = row - first < valid ? candidates(batch, row) : 0;
      if (kFill)
        fill(batch, row);
      else
        batch.offset()[row + 1] = rooms;
    }
  }

 private:
  void group(const QuadBatch& batch, int64_t gts) {
    labels_.resize(gts);
    order_.resize(gts);
    crowd_.resize(gts);
    for (int64_t j = 0; j < gts; ++j) {
      labels_[j] = batch.gt_label(first_gt_ + j);
      order_[j] = static_cast<int32_t>(j);
      crowd_[j] = batch.is_crowd(first_gt_ + j);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [this](int32_t a, int32_t b) { return labels_[a] < labels_[b]; });
  }

  // Leaves in candidates_ the ground truths of the detection's class that bounds do not rule out.
  int32_t candidates(const QuadBatch& batch, int64_t row) {
    const int64_t label = batch.label(row);
    const Quad& quad = batch.quad(row);
    candidates_.clear();
    auto at = std::lower_bound(order_.begin(), order_.end(), label,
                               [this](int32_t j, int64_t wanted) { return labels_[j] < wanted; });
    for (; at != order_.end() && labels_[*at] == label; ++at)
      if (may_reach(quad, batch.gt_quad(first_gt_ + *at), crowd_[*at], batch.lowest))
        candidates_.push_back(*at);
    return static_cast<int32_t>(candidates_.size());
  }

  void fill(const QuadBatch& batch, int64_t row) {
    found_.clear();
    for (const int32_t j : candidates_) {
      const double similarity = quad_iou(batch.quad(row), batch.gt_quad(first_gt_ + j), crowd_[j]);
      if (similarity >= batch.lowest) found_.push_back(Found{similarity, j});
    }
    candidates_.clear();
    std::sort(found_.begin(), found_.end());
    int64_t pair = batch.offset()[row];
    batch.used_rooms()[row] = static_cast<int32_t>(found_.size());
    for (const Found& found : found_) {
      *batch.ground_truth(pair) = found.gt;
      *batch.similarity(pair++) = found.similarity;
    }
  }

  int64_t first_gt_ = 0;
  std::vector<int64_t> labels_;
  std::vector<int32_t> order_, candidates_;
  std::vector<uint8_t> crowd_;
  std::vector<Found> found_;
};

template <bool kFill>
void pairs_of(const QuadBatch& batch, int64_t threads) {
  auto body = [&](int64_t begin, int64_t end) {
    thread_local ImagePairs pairs;
    for (int64_t image = begin; image < end; ++image) pairs.run<kFill>(batch, image);
  };
  parallel_for(batch.images, std::clamp<int64_t>(batch.images / 16, 1, 64), static_cast<int>(threads), body);
}

}  // namespace
}  // namespace valor

// Loads the rows of one side, see QuadRows in core/rotated.h. `error` keeps the smallest code it has met.
VALOR_API int32_t valor_load_quads_cpu(const void* row_words, int64_t* error, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const QuadRows& task = *static_cast<const QuadRows*>(row_words);
    FirstError first(*error);
    auto body = [&](int64_t begin, int64_t end) {
      if (begin == end) return;
      for (int64_t image = segment_of(task.first(), task.images, begin); begin < end; ++image)
        for (; begin < std::min(end, task.first()[image + 1]); ++begin) first.note(task.load(image, begin));
    };
    if (task.images == 0) return;
    parallel_for(task.first()[task.images], 2048, static_cast<int>(threads), body);
    *error = first.code();
  });
}

// Writes to offset() where the room of every detection of a QuadBatch begins, and the size of all at the end.
VALOR_API int32_t valor_rotated_rooms_cpu(const void* batch_words, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const QuadBatch& batch = *static_cast<const QuadBatch*>(batch_words);
    pairs_of<false>(batch, threads);
    batch.offset()[0] = 0;
    for (int64_t row = 0; row < batch.first_detections()[batch.images]; ++row)
      batch.offset()[row + 1] += batch.offset()[row];
  });
}

// Fills the rooms.
VALOR_API int32_t valor_rotated_pairs_cpu(const void* batch_words, int64_t threads) {
  return valor::guarded(
      [&] { valor::pairs_of<true>(*static_cast<const valor::QuadBatch*>(batch_words), threads); });
}

// IoU of every quadrilateral with every other: out is [n, m]; crowd is [m] or null.
VALOR_API int32_t valor_quad_iou_cpu(const void* quads1, int64_t n, const void* quads2, int64_t m,
                                     const uint8_t* crowd, double* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Quad* const rows = static_cast<const Quad*>(quads1);
    const Quad* const columns = static_cast<const Quad*>(quads2);
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < m; ++j) out[i * m + j] = quad_iou(rows[i], columns[j], crowd && crowd[j]);
    };
    parallel_for(n, std::clamp<int64_t>(4096 / (m + 1), 1, 4096), static_cast<int>(threads), body);
  });
}
