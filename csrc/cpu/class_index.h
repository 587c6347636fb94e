// Which labels rows have, and the class that each of them is.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

namespace valor {

// The distinct labels among those noted: small ones in a table, others by a sort.
class LabelSet {
 public:
  void note(int32_t label) {
    if (static_cast<uint32_t>(label) < kSmall)
      small_[label] = 1;
    else if (large_.empty() || large_.back() != label)
      large_.push_back(label);
  }
  std::vector<int64_t> ascending() {
    std::sort(large_.begin(), large_.end());
    large_.erase(std::unique(large_.begin(), large_.end()), large_.end());
    const auto positive = std::lower_bound(large_.begin(), large_.end(), 0);
    std::vector<int64_t> found(large_.begin(), positive);
    for (uint32_t label = 0; label < kSmall; ++label)
      if (small_[label]) found.push_back(label);
    found.insert(found.end(), positive, large_.end());
    return found;
  }

 private:
  static constexpr uint32_t kSmall = 1 << 16;
  std::vector<uint8_t> small_ = std::vector<uint8_t>(kSmall, 0);
  std::vector<int32_t> large_;
};

// Class index of a label, -1 when it is not one of the ascending `labels`; a table when they lie close
// together.
class ClassIndex {
 public:
  ClassIndex(const int64_t* labels, int64_t count) : labels_(labels), count_(count) {
    if (count == 0) return;
    const uint64_t span = static_cast<uint64_t>(labels[count - 1]) - static_cast<uint64_t>(labels[0]);
    if (span >= (1u << 20)) return;
    table_.assign(span + 1, -1);
    for (int64_t k = 0; k < count; ++k) table_[labels[k] - labels[0]] = static_cast<int32_t>(k);
  }
  int32_t of(int64_t label) const {
    if (!table_.empty()) {
      const uint64_t at = static_cast<uint64_t>(label) - static_cast<uint64_t>(labels_[0]);
      return at < table_.size() ? table_[at] : -1;
    }
    const int64_t* found = std::lower_bound(labels_, labels_ + count_, label);
    return found < labels_ + count_ && *found == label ? static_cast<int32_t>(found - labels_) : -1;
  }

 private:
  const int64_t* labels_;
  int64_t count_;
  std::vector<int32_t> table_;
};

}  // namespace valor
