// Dense masks, one byte per pixel, to run lengths and back. Masks are split over threads.
#include <algorithm>
#include <vector>

#include "../core/runs.h"
#include "guard.h"
#include "pool.h"
#include "run_list.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace valor {
namespace {

constexpr int64_t kBlock = 64;
constexpr int64_t kPixelsPerChunk = 1 << 20;  // 30 us: waking a thread for less takes longer than it saves

// Bit i: whether exactly one of now[i] and before[i] is 0, for 64 pixels, most often none. Several versions.
struct Portable {
  static inline uint64_t changed(const uint8_t* now, const uint8_t* before) {
    if (!memcmp(now, before, kBlock)) return 0;
    uint64_t bits = 0;
    for (int64_t i = 0; i < kBlock; ++i) bits |= static_cast<uint64_t>(!now[i] != !before[i]) << i;
    return bits;
  }
};

#if defined(__x86_64__)
struct Sse2 {
  static inline uint64_t changed(const uint8_t* now, const uint8_t* before) {
    const auto load = [](const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); };
    const auto same = [&](int i) { return _mm_cmpeq_epi8(load(now + i), load(before + i)); };
    const __m128i all = _mm_and_si128(_mm_and_si128(same(0), same(16)), _mm_and_si128(same(32), same(48)));
    if (_mm_movemask_epi8(all) == 0xffff) return 0;
    const __m128i none = _mm_setzero_si128();
    uint64_t bits = 0;
    for (int i = 0; i < kBlock; i += 16) {
      const __m128i differ =
          _mm_xor_si128(_mm_cmpeq_epi8(load(now + i), none), _mm_cmpeq_epi8(load(before + i), none));
      bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(differ))) << i;
    }
    return bits;
  }
};

struct Avx2 {
  __attribute__((target("avx2"))) static inline uint64_t changed(const uint8_t* now, const uint8_t* before) {
    const __m256i now0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(now));
    const __m256i now1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(now + 32));
    const __m256i before0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(before));
    const __m256i before1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(before + 32));
    const __m256i differ = _mm256_or_si256(_mm256_xor_si256(now0, before0), _mm256_xor_si256(now1, before1));
    if (_mm256_testz_si256(differ, differ)) return 0;
    const __m256i none = _mm256_setzero_si256();
    const __m256i low = _mm256_xor_si256(_mm256_cmpeq_epi8(now0, none), _mm256_cmpeq_epi8(before0, none));
    const __m256i high = _mm256_xor_si256(_mm256_cmpeq_epi8(now1, none), _mm256_cmpeq_epi8(before1, none));
    return static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
           static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(high))) << 32;
  }
};
#endif

// Writes the places where `now` and `before` differ to `out`, which has room for all; returns their number.
#define VALOR_FIND_CHANGES(Block)                                                              \
  uint32_t* out = first;                                                                       \
  const auto note = [&](uint64_t bits, int64_t at) {                                           \
    for (; bits; bits &= bits - 1) *out++ = static_cast<uint32_t>(at + __builtin_ctzll(bits)); \
  };                                                                                           \
  int64_t at = 0;                                                                              \
  for (; at + kBlock <= size; at += kBlock)                                                    \
    if (const uint64_t bits = Block::changed(now + at, before + at)) note(bits, at);           \
  if (at < size && size >= kBlock) {                                                           \
    const int64_t last = size - kBlock; /* again, but for the pixels that were seen */         \
    note(Block::changed(now + last, before + last) >> (at - last), at);                        \
  } else {                                                                                     \
    for (; at < size; ++at)                                                                    \
      if (!now[at] != !before[at]) *out++ = static_cast<uint32_t>(at);                         \
  }                                                                                            \
  return out - first;

using FindChanges = int64_t (*)(const uint8_t* now, const uint8_t* before, int64_t size, uint32_t* first);

#if defined(__x86_64__)
int64_t changes_sse2(const uint8_t* now, const uint8_t* before, int64_t size, uint32_t* first) {
  VALOR_FIND_CHANGES(Sse2)
}
__attribute__((target("avx2"))) int64_t changes_avx2(const uint8_t* now, const uint8_t* before, int64_t size,
                                                     uint32_t* first){VALOR_FIND_CHANGES(Avx2)} FindChanges
    best_changes() {
  return __builtin_cpu_supports("avx2") ? changes_avx2 : changes_sse2;
}
#else
int64_t changes_portable(const uint8_t* now, const uint8_t* before, int64_t size,
                         uint32_t* first){VALOR_FIND_CHANGES(Portable)} FindChanges best_changes() {
  return changes_portable;
}
#endif

const FindChanges find_changes = best_changes();

// Pixel (row, column) is at first[row * by_row + column * by_column]; nonzero is set.
struct Pixels {
  const uint8_t* first;
  int64_t height, width, by_row, by_column;
};

// Finds the runs of one mask after another.
class MaskRuns {
 public:
  void add(Pixels mask, std::vector<int32_t>& runs) {
    const int64_t pixels = mask.height * mask.width;
    changes_.clear();
    if (pixels > 0) {
      if (mask.height == 1) mask.by_row = 1;  // pixels of a column lie side by side, as there are no others
      if (mask.by_row != 1 && mask.by_column != 1) mask = copied(mask);
      if (mask.by_row == 1)
        by_columns(mask);
      else
        by_rows(mask);
    }
    uint32_t before = 0;
    for (const uint32_t change : changes_) {
      runs.push_back(static_cast<int32_t>(change - before));
      before = change;
    }
    runs.push_back(static_cast<int32_t>(pixels - before));
    if (copy_.capacity() > kKeptBytes) std::vector<uint8_t>().swap(copy_);
  }

 private:
  static constexpr int64_t kPiece = 4096;
  static constexpr size_t kKeptBytes = 1 << 23;

  // The same mask with rows side by side.
  Pixels copied(const Pixels& mask) {
    copy_.resize(static_cast<size_t>(mask.height * mask.width));
    uint8_t* out = copy_.data();
    for (int64_t row = 0; row < mask.height; ++row)
      for (int64_t column = 0; column < mask.width; ++column)
        *out++ = mask.first[row * mask.by_row + column * mask.by_column];
    return Pixels{copy_.data(), mask.height, mask.width, mask.width, 1};
  }

  // Columns whose pixels are side by side: changes come in order.
  void by_columns(const Pixels& mask) {
    const bool joined = mask.by_column == mask.height;
    const int64_t parts = joined ? 1 : mask.width, size = joined ? mask.height * mask.width : mask.height;
    found_.resize(kPiece);
    bool last = false;
    for (int64_t part = 0; part < parts; ++part) {
      const uint8_t* const pixels = mask.first + part * mask.by_column;
      const uint32_t place = static_cast<uint32_t>(part * size);
      if ((pixels[0] != 0) != last) changes_.push_back(place);
      for (int64_t at = 1; at < size; at += kPiece) {
        const int64_t found =
            find_changes(pixels + at, pixels + at - 1, std::min(kPiece, size - at), found_.data());
        for (int64_t i = 0; i < found; ++i)
          changes_.push_back(place + static_cast<uint32_t>(at) + found_[static_cast<size_t>(i)]);
      }
      last = pixels[size - 1] != 0;
    }
  }

  // Rows whose pixels are side by side: each is compared with the one above, and the changes are sorted by
  // column.
  void by_rows(const Pixels& mask) {
    found_.resize(static_cast<size_t>(mask.width));
    starts_.assign(static_cast<size_t>(mask.width) + 1, 0);
    columns_.clear();
    rows_.clear();
    const uint8_t* const bottom = mask.first + (mask.height - 1) * mask.by_row;
    if (mask.first[0] != 0) note(0, 0);
    keep(find_changes(mask.first + 1, bottom, mask.width - 1, found_.data()), 0, 1);
    for (int64_t row = 1; row < mask.height; ++row) {
      const uint8_t* const pixels = mask.first + row * mask.by_row;
      keep(find_changes(pixels, pixels - mask.by_row, mask.width, found_.data()), row, 0);
    }
    sort(static_cast<uint32_t>(mask.height));
  }

  void note(uint32_t row, uint32_t column) {
    columns_.push_back(column);
    rows_.push_back(row);
    ++starts_[column + 1];
  }
  void keep(int64_t found, int64_t row, uint32_t first_column) {
    for (int64_t i = 0; i < found; ++i)
      note(static_cast<uint32_t>(row), first_column + found_[static_cast<size_t>(i)]);
  }

  void sort(uint32_t height) {
    changes_.resize(columns_.size());
    for (size_t column = 1; column < starts_.size(); ++column) starts_[column] += starts_[column - 1];
    for (size_t i = 0; i < columns_.size(); ++i)
      changes_[starts_[columns_[i]]++] = columns_[i] * height + rows_[i];
  }

  std::vector<uint32_t> changes_, found_, columns_, rows_, starts_;
  std::vector<uint8_t> copy_;
};

}  // namespace
}  // namespace valor

// Masks of one size -> runs. `by_mask`, `by_row` and `by_column` say how many bytes lie from one to the next.
// Writes where the runs of each begin, and the address of a list for valor_collect_runs_cpu.
VALOR_API int32_t valor_masks_to_runs_cpu(const uint8_t* masks, int64_t num_masks, int64_t height,
                                          int64_t width, int64_t by_mask, int64_t by_row, int64_t by_column,
                                          int64_t* offsets, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const int64_t grain = std::max<int64_t>(1, kPixelsPerChunk / (height * width + 1));
    auto runs = list_runs(num_masks, grain, static_cast<int>(threads), offsets,
                          [=](int64_t m, std::vector<int32_t>& out) {
                            thread_local MaskRuns found;
                            found.add({masks + m * by_mask, height, width, by_row, by_column}, out);
                          });
    *list = reinterpret_cast<int64_t>(runs.release());
  });
}

// Runs of masks of one size -> out [N, W, H], 0 and 1.
VALOR_API int32_t valor_runs_to_masks_cpu(const void* run_words, uint8_t* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs& runs = *static_cast<const Runs*>(run_words);
    const int64_t pixels = runs.masks ? runs.pixels(0) : 0;
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        uint8_t* at = out + m * pixels;
        if (!runs.size(m)) memset(at, 0, static_cast<size_t>(pixels));
        for (int64_t i = 0; i < runs.size(m); at += runs.begin(m)[i++])
          memset(at, static_cast<int>(i & 1), static_cast<size_t>(runs.begin(m)[i]));
      }
    };
    const int64_t grain = std::max<int64_t>(1, kPixelsPerChunk / (pixels + 1));
    parallel_for(runs.masks, grain, static_cast<int>(threads), body);
  });
}
