// A few masks from strings, lists of runs or polygons to what is asked of them, each in one call on the
// caller's thread: for so few, arrays of the host and waking threads take longer than the work. Nothing says
// what is wrong with a mask: the host goes the long way then, which does.
#include <memory>
#include <vector>

#include "../core/runs.h"
#include "guard.h"
#include "rasteriser.h"
#include "run_list.h"
#include "run_sets.h"

namespace valor {
namespace {

// Heights and widths [n, 2], then how many characters or runs each mask has, [n].
struct MaskTable {
  const int64_t* words;
  int64_t masks;

  int64_t height(int64_t m) const { return words[2 * m]; }
  int64_t width(int64_t m) const { return words[2 * m + 1]; }
  int64_t length(int64_t m) const { return words[2 * masks + m]; }
  bool is_size(int64_t m) const {
    return height(m) >= 0 && width(m) >= 0 && height(m) <= INT32_MAX && width(m) <= INT32_MAX &&
           height(m) * width(m) <= INT32_MAX;
  }
  int64_t total() const {
    int64_t sum = 0;
    for (int64_t m = 0; m < masks; ++m) sum += length(m);
    return sum;
  }
};

// The masks of strings that follow one another.
class TextMasks {
 public:
  TextMasks(const uint8_t* text, const MaskTable& table)
      : counts_(new int32_t[static_cast<size_t>(table.total())]), offsets_(1, 0) {
    for (int64_t m = 0; m < table.masks; text += table.length(m++)) {
      if (!table.is_size(m)) return;
      const int64_t runs = decode_runs(text, table.length(m), table.height(m) * table.width(m),
                                       counts_.get() + offsets_.back());
      if (runs < 0) return;
      offsets_.push_back(offsets_.back() + runs);
      sizes_.push_back(static_cast<int32_t>(table.height(m)));
      sizes_.push_back(static_cast<int32_t>(table.width(m)));
    }
    good_ = true;
  }
  bool good() const { return good_; }
  Runs runs() const {
    return Runs{counts_.get(), offsets_.data(), sizes_.data(), static_cast<int64_t>(offsets_.size()) - 1};
  }

 private:
  std::unique_ptr<int32_t[]> counts_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> sizes_;
  bool good_ = false;
};

// Strings that follow one another.
struct Letters {
  explicit Letters(int64_t runs)
      : first(new uint8_t[static_cast<size_t>(kMostRunCharacters * runs)]), end(first.get()) {}
  std::unique_ptr<uint8_t[]> first;
  uint8_t* end;
};

// Runs that are at least 0 and add up to the pixels, or none.
bool add_listed(const int64_t* values, int64_t size, int64_t pixels, std::vector<int32_t>& out) {
  int64_t sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (values[i] < 0 || values[i] > pixels - sum) return false;
    sum += values[i];
    out.push_back(static_cast<int32_t>(values[i]));
  }
  return size == 0 || sum == pixels;
}

}  // namespace
}  // namespace valor

using namespace valor;

// Strings -> areas [n] and boxes [n, 4] as left, top, width and height, unless null. good: 1, or 0 and
// nothing else.
VALOR_API int32_t valor_text_measures_cpu(const uint8_t* text, const int64_t* table, int64_t n,
                                          uint32_t* areas, double* boxes, int64_t* good) {
  return guarded([&] {
    const TextMasks masks(text, MaskTable{table, n});
    *good = masks.good();
    if (!masks.good()) return;
    const Runs runs = masks.runs();
    for (int64_t m = 0; areas && m < n; ++m) {
      areas[m] = 0;
      for (int64_t i = 1; i < runs.size(m); i += 2) areas[m] += static_cast<uint32_t>(runs.begin(m)[i]);
    }
    if (!boxes) return;
    for (int64_t m = 0; m < n; ++m) {
      RunMeasure measure(runs.height(m));
      for_each_run(runs.begin(m), runs.size(m),
                   [&](uint32_t begin, uint32_t end) { measure.add(begin, end); });
      const RunBox box = measure.box();
      boxes[4 * m] = box.left, boxes[4 * m + 1] = box.top;
      boxes[4 * m + 2] = box.right - box.left, boxes[4 * m + 3] = box.bottom - box.top;
    }
  });
}

// Strings -> IoU of n masks with m ground truths, out[g * n + d]. crowd is [m].
VALOR_API int32_t valor_text_iou_cpu(const uint8_t* text, const int64_t* table, int64_t n,
                                     const uint8_t* gt_text, const int64_t* gt_table, int64_t m,
                                     const uint8_t* crowd, double* out, int64_t* good) {
  return guarded([&] {
    const TextMasks masks(text, MaskTable{table, n}), gts(gt_text, MaskTable{gt_table, m});
    *good = masks.good() && gts.good();
    if (!*good) return;
    const Runs runs = masks.runs(), truths = gts.runs();
    const MeasuredMasks a(runs), b(truths);
    for (int64_t j = 0; j < m; ++j)
      for (int64_t i = 0; i < n; ++i) {
        const bool same = runs.height(i) == truths.height(j) && runs.width(i) == truths.width(j);
        out[j * n + i] = run_iou(a[i], b[j], same, crowd[j], static_cast<uint32_t>(runs.height(i)));
      }
  });
}

// Strings of masks of one size -> a list of the runs of their union or intersection, whose number goes to
// offsets[1]. list: 0 where there is none.
VALOR_API int32_t valor_text_merge_cpu(const uint8_t* text, const int64_t* table, int64_t n,
                                       int64_t intersect, int64_t* offsets, int64_t* list) {
  return guarded([&] {
    const TextMasks masks(text, MaskTable{table, n});
    *list = 0;
    if (!masks.good()) return;
    const auto merge = [&](int64_t, std::vector<int32_t>& out) {
      merge_group(masks.runs(), 0, n, intersect != 0, out);
    };
    *list = reinterpret_cast<int64_t>(list_runs(1, 1, 1, offsets, merge).release());
  });
}

// Runs as the host has them -> a list of them. list: 0 where some are none.
VALOR_API int32_t valor_listed_runs_cpu(const int64_t* values, const int64_t* table_words, int64_t n,
                                        int64_t* offsets, int64_t* list) {
  return guarded([&] {
    const MaskTable table{table_words, n};
    bool good = true;
    const auto add = [&](int64_t m, std::vector<int32_t>& out) {
      good = good && table.is_size(m) &&
             add_listed(values, table.length(m), table.height(m) * table.width(m), out);
      values += table.length(m);
    };
    auto made = list_runs(n, n, 1, offsets, add);
    *list = good ? reinterpret_cast<int64_t>(made.release()) : 0;
  });
}

// Rings, of which table has heights, widths and numbers of vertices -> a list of runs, a mask a ring. list: 0
// where a ring is none.
VALOR_API int32_t valor_drawn_rings_cpu(const double* xy, const int64_t* table_words, int64_t n,
                                        int64_t* offsets, int64_t* list) {
  return guarded([&] {
    const MaskTable table{table_words, n};
    Rasteriser rasteriser;
    bool good = true;
    const auto draw = [&](int64_t m, std::vector<int32_t>& out) {
      if (!good || !(good = table.is_size(m))) return;
      rasteriser.begin(static_cast<int32_t>(table.height(m)), static_cast<int32_t>(table.width(m)));
      good = rasteriser.add_ring(xy, table.length(m)) == kGoodRing;
      if (good) rasteriser.finish(out);
      xy += 2 * table.length(m);
    };
    auto made = list_runs(n, n, 1, offsets, draw);
    *list = good ? reinterpret_cast<int64_t>(made.release()) : 0;
  });
}

// A list of runs of n masks, which is freed -> their strings, whose address goes to `text`; ends [n]: where
// each ends.
VALOR_API int32_t valor_list_text_cpu(int64_t list, const int64_t* offsets, int64_t n, int64_t* ends,
                                      int64_t* text) {
  return guarded([&] {
    const std::unique_ptr<RunList> runs(reinterpret_cast<RunList*>(list));
    auto made = std::make_unique<Letters>(offsets[n]);
    auto part = runs->parts.begin();
    int64_t before = 0;  // runs in parts that are done
    for (int64_t m = 0; m < n; ++m) {
      while (offsets[m] < offsets[m + 1] && offsets[m] - before >= static_cast<int64_t>(part->size()))
        before += static_cast<int64_t>((part++)->size());
      for (int64_t i = 0; i < offsets[m + 1] - offsets[m]; ++i)
        made->end = write_run(run_difference(part->data() + offsets[m] - before, i), made->end);
      ends[m] = made->end - made->first.get();
    }
    *text = reinterpret_cast<int64_t>(made.release());
  });
}

// Copies strings, unless null, and frees them.
VALOR_API int32_t valor_take_text_cpu(int64_t text, uint8_t* out) {
  return guarded([&] {
    const std::unique_ptr<Letters> made(reinterpret_cast<Letters*>(text));
    if (out) std::copy(made->first.get(), made->end, out);
  });
}
