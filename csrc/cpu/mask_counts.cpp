// Counts of labelled masks, two sides of an image at a time: every mask is read once, block by block, and a
// block holds the words of the labels that it has pixels of, so that pairs are intersected in the cache.
#include <algorithm>
#include <mutex>
#include <vector>

#include "guard.h"
#include "pack_masks.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

// An image. The fields are 64-bit words: valor_gpu/ops/mask_counts/cpu.py packs them.
struct MaskSet {
  int64_t first, first_prediction, end;  // masks: ground truths, then predictions
  int64_t labels;                        // C
  int64_t table;                         // where its counts begin
};

// What follows the counts of labels in a table.
enum Total : int { kRight, kNeither, kGtOverlap, kOverlap, kTotals };

struct MaskTask {
  const uint8_t* const* masks;
  const int64_t* labels;  // of each mask, from 0 to C - 1
  const MaskSet* sets;
  const int64_t (*pieces)[3];  // set, first pixel (a multiple of 64), end
  int64_t* tables;
  int64_t exclusive;  // of masks of a side that overlap the first keeps the pixel
  int64_t pairs;      // tables end with counts [C + 1, C + 1]; the last row and column are of no label

  int64_t table_size(int64_t labels) const {
    return 3 * labels + kTotals + (pairs ? (labels + 1) * (labels + 1) : 0);
  }
};

constexpr int64_t kBlockBits = kPackBlock * kWordBits;
using Words = uint64_t[kPackBlock];

VALOR_CLONES int64_t bits_of(const uint64_t* a) {
  int64_t total = 0;
  for (int64_t j = 0; j < kPackBlock; ++j) total += count_bits(a[j]);
  return total;
}

VALOR_CLONES int64_t common_bits(const uint64_t* a, const uint64_t* b) {
  int64_t total = 0;
  for (int64_t j = 0; j < kPackBlock; ++j) total += count_bits(a[j] & b[j]);
  return total;
}

// Bits of a that b has not.
VALOR_CLONES int64_t other_bits(const uint64_t* a, const uint64_t* b) {
  int64_t total = 0;
  for (int64_t j = 0; j < kPackBlock; ++j) total += count_bits(a[j] & ~b[j]);
  return total;
}

// One side of a block: the words of each label that has pixels there.
class Side {
 public:
  explicit Side(int64_t labels) : words_(labels * kPackBlock), there_(labels) {}

  void clear() {
    for (const int64_t label : present) there_[label] = false;
    present.clear();
    std::fill_n(seen, kPackBlock, 0);
    std::fill_n(twice, kPackBlock, 0);
  }

  void add(int64_t label, uint64_t* pixels, bool exclusive) {
    uint64_t any = 0;
    for (int64_t j = 0; j < kPackBlock; ++j) any |= pixels[j];
    if (!any) return;
    uint64_t* const own = words_.data() + label * kPackBlock;
    if (!there_[label]) {
      std::fill_n(own, kPackBlock, 0);
      there_[label] = true;
      present.push_back(label);
    }
    for (int64_t j = 0; j < kPackBlock; ++j) {
      const uint64_t fresh = pixels[j] & ~own[j];  // of another label or of none so far
      twice[j] |= fresh & seen[j];
      own[j] |= exclusive ? fresh & ~seen[j] : fresh;
      seen[j] |= pixels[j];
    }
  }

  // nullptr: no pixels.
  const uint64_t* of(int64_t label) const {
    return there_[label] ? words_.data() + label * kPackBlock : nullptr;
  }

  std::vector<int64_t> present;
  Words seen, twice;  // pixels of any label, and of several

 private:
  std::vector<uint64_t> words_;
  std::vector<char> there_;
};

// Fills words with up to 4,096 pixels, and with zeros.
void pack_block(const uint8_t* pixels, int64_t count, uint64_t* words) {
  const int64_t whole = count / kWordBits;
  pack_words(pixels, whole, words);
  if (whole == kPackBlock) return;
  std::fill(words + whole, words + kPackBlock, 0);
  if (count % kWordBits) words[whole] = pack_word(pixels + kWordBits * whole, count % kWordBits);
}

class Counter {
 public:
  Counter(const MaskTask& task, const MaskSet& set)
      : task_(task), set_(set), gts_(set.labels), found_(set.labels), table_(task.table_size(set.labels)) {}

  void count(int64_t first, int64_t end) {
    for (; first < end; first += kBlockBits) {
      const int64_t pixels = std::min(end - first, kBlockBits);
      load(gts_, set_.first, set_.first_prediction, first, pixels);
      load(found_, set_.first_prediction, set_.end, first, pixels);
      add_labels();
      add_totals(pixels);
      if (task_.pairs) add_pairs();
    }
  }

  void add_to(int64_t* table) const {
    for (size_t i = 0; i < table_.size(); ++i) table[i] += table_[i];
  }

 private:
  void load(Side& side, int64_t begin, int64_t end, int64_t first, int64_t pixels) {
    side.clear();
    Words words;
    for (int64_t mask = begin; mask < end; ++mask) {
      pack_block(task_.masks[mask] + first, pixels, words);
      side.add(task_.labels[mask], words, task_.exclusive != 0);
    }
  }

  void add_labels() {
    int64_t* const right = table_.data();
    int64_t* const predicted = right + set_.labels;
    int64_t* const true_ = predicted + set_.labels;
    for (const int64_t label : gts_.present) {
      const uint64_t* const words = gts_.of(label);
      true_[label] += bits_of(words);
      if (const uint64_t* const other = found_.of(label)) right[label] += common_bits(words, other);
    }
    for (const int64_t label : found_.present) predicted[label] += bits_of(found_.of(label));
  }

  void add_totals(int64_t pixels) {
    static const Words none = {};
    Words wrong = {}, any;
    for (const int64_t label : gts_.present) {
      const uint64_t* const words = gts_.of(label);
      const uint64_t* const other = found_.of(label) ? found_.of(label) : none;
      for (int64_t j = 0; j < kPackBlock; ++j) wrong[j] |= words[j] ^ other[j];
    }
    for (const int64_t label : found_.present)
      if (!gts_.of(label))
        for (int64_t j = 0; j < kPackBlock; ++j) wrong[j] |= found_.of(label)[j];
    for (int64_t j = 0; j < kPackBlock; ++j) any[j] = gts_.seen[j] | found_.seen[j];
    int64_t* const totals = table_.data() + 3 * set_.labels;
    const int64_t neither = pixels - bits_of(any);
    totals[kRight] += pixels - bits_of(wrong);
    totals[kNeither] += neither;
    totals[kGtOverlap] += bits_of(gts_.twice);
    totals[kOverlap] += bits_of(found_.twice);
    if (task_.pairs) table_.back() += neither;
  }

  void add_pairs() {
    const int64_t width = set_.labels + 1;
    int64_t* const pairs = table_.data() + 3 * set_.labels + kTotals;
    for (const int64_t label : gts_.present) {
      const uint64_t* const words = gts_.of(label);
      int64_t* const row = pairs + label * width;
      for (const int64_t other : found_.present) row[other] += common_bits(words, found_.of(other));
      row[set_.labels] += other_bits(words, found_.seen);
    }
    int64_t* const last = pairs + set_.labels * width;
    for (const int64_t label : found_.present) last[label] += other_bits(found_.of(label), gts_.seen);
  }

  const MaskTask& task_;
  const MaskSet& set_;
  Side gts_, found_;
  std::vector<int64_t> table_;
};

}  // namespace
}  // namespace valor

// Adds to the tables what the pieces hold.
VALOR_API int32_t valor_count_mask_sets_cpu(const void* words, int64_t pieces, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const MaskTask& task = *static_cast<const MaskTask*>(words);
    std::mutex mutex;
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const MaskSet& set = task.sets[task.pieces[piece][0]];
        Counter counter(task, set);
        counter.count(task.pieces[piece][1], task.pieces[piece][2]);
        std::lock_guard<std::mutex> lock(mutex);
        counter.add_to(task.tables + set.table);
      }
    };
    parallel_for(pieces, 1, static_cast<int>(threads), body);
  });
}
