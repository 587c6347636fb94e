// CPU driver of the census: which labels row tables hold, and how many rows count.
#include <algorithm>
#include <vector>

#include "../core/curves.h"
#include "guard.h"

namespace valor {
namespace {

constexpr int kPaddingBucket = 255;  // of a detection row that stands for nothing

// The distinct labels among those noted: small ones in a table, others by a sort.
class Labels {
 public:
  void note(int32_t label) {
    if (static_cast<uint32_t>(label) < kSmall)
      small_[label] = 1;
    else if (large_.empty() || large_.back() != label)
      large_.push_back(label);
  }
  std::vector<int32_t> ascending() {
    std::sort(large_.begin(), large_.end());
    large_.erase(std::unique(large_.begin(), large_.end()), large_.end());
    const auto positive = std::lower_bound(large_.begin(), large_.end(), 0);
    std::vector<int32_t> found(large_.begin(), positive);
    for (uint32_t label = 0; label < kSmall; ++label)
      if (small_[label]) found.push_back(static_cast<int32_t>(label));
    found.insert(found.end(), positive, large_.end());
    return found;
  }

 private:
  static constexpr uint32_t kSmall = 1 << 16;
  std::vector<uint8_t> small_ = std::vector<uint8_t>(kSmall, 0);
  std::vector<int32_t> large_;
};

int32_t label_at(const uint8_t* bytes) {
  int32_t label;
  memcpy(&label, bytes, 4);
  return label;
}

}  // namespace
}  // namespace valor

// Writes at most `capacity` labels and always how many there are; totals: detections, ground truths, ignored
// ones.
VALOR_API int32_t valor_label_counts_cpu(const uint8_t* detections, int64_t num_detections, int64_t detection_bytes,
                                   const uint8_t* truths, int64_t num_truths, int64_t truth_bytes,
                                   int64_t num_areas, int64_t capacity, int64_t* labels, int64_t* num_labels,
                                   int64_t* totals) {
  return valor::guarded([&] {
    using namespace valor;
    Labels seen;
    std::fill(totals, totals + 3, 0);
    for (int64_t i = 0; i < num_detections; ++i) {
      const uint8_t* row = detections + i * detection_bytes;
      if (record_bucket(row) == kPaddingBucket) continue;
      ++totals[0];
      seen.note(record_label(row));
    }
    for (int64_t j = 0; j < num_truths; ++j) {
      const uint8_t* row = truths + j * truth_bytes;
      const auto bit = [&](int64_t b) { return row[4 + b / 8] >> (b % 8) & 1; };
      if (!bit(num_areas)) continue;
      ++totals[1];
      totals[2] += bit(num_areas + 1);
      seen.note(label_at(row));
    }
    const std::vector<int32_t> found = seen.ascending();
    *num_labels = static_cast<int64_t>(found.size());
    for (int64_t k = 0; k < std::min<int64_t>(*num_labels, capacity); ++k) labels[k] = found[k];
  });
}
