// Run lengths of masks on the CPU: strings, measures, merging and IoU. Masks are split over threads.
#include "../core/runs.h"

#include <algorithm>
#include <vector>

#include "../core/error_codes.h"
#include "guard.h"
#include "pool.h"
#include "run_list.h"
#include "run_sets.h"
#include "simd.h"

namespace valor {
namespace {

constexpr int64_t kRunsPerChunk = 1 << 16;  // 0.1 ms: waking a thread for less takes longer than it saves

// Masks of a chunk, when `items` runs or characters belong to `masks`.
int64_t masks_per_chunk(int64_t items, int64_t masks) {
  return std::max<int64_t>(1, kRunsPerChunk * masks / (items + masks + 1));
}

// Calls body(mask) for each, on threads where there is enough to do.
template <class Body>
void for_each_mask(int64_t masks, int64_t items, int64_t threads, Body&& body) {
  auto range = [&](int64_t begin, int64_t end) {
    for (int64_t mask = begin; mask < end; ++mask) body(mask);
  };
  parallel_for(masks, masks_per_chunk(items, masks), static_cast<int>(threads), range);
}

void add_up(int64_t* offsets, int64_t masks) {
  offsets[0] = 0;
  for (int64_t mask = 0; mask < masks; ++mask) offsets[mask + 1] += offsets[mask];
}

// Numbers in a string that ends with one: characters without the bit that says that another follows.
VALOR_CLONES int64_t number_of_runs(const uint8_t* text, int64_t size) {
  int64_t runs = 0;
  for (int64_t i = 0; i < size; ++i) runs += ~(text[i] - 48u) >> 5 & 1u;
  return runs;
}

// Whether runs are at least 0 and add up to the pixels, which an empty list does always.
VALOR_CLONES bool are_runs(const int32_t* counts, int64_t runs, int64_t pixels) {
  int64_t sum = 0;
  int32_t signs = 0;
  for (int64_t i = 0; i < runs; ++i) {
    sum += counts[i];
    signs |= counts[i];
  }
  return runs == 0 || (signs >= 0 && sum == pixels);
}

const Runs& runs_at(const void* words) { return *static_cast<const Runs*>(words); }

}  // namespace
}  // namespace valor

// Strings -> where the runs of each begin: string m is text[offsets[m]] to text[offsets[m + 1] - 1].
VALOR_API int32_t valor_count_runs_cpu(const uint8_t* text, const int64_t* offsets, int64_t masks,
                                       int64_t* run_offsets, int64_t threads) {
  return valor::guarded([&] {
    valor::for_each_mask(masks, offsets[masks] - offsets[0], threads, [=](int64_t m) {
      run_offsets[m + 1] = valor::number_of_runs(text + offsets[m], offsets[m + 1] - offsets[m]);
    });
    valor::add_up(run_offsets, masks);
  });
}

// Strings -> runs at the places that valor_count_runs_cpu has found. `problem` receives the first mask with
// an error, or -1, and the fields of its RunProblem.
VALOR_API int32_t valor_decode_runs_cpu(const uint8_t* text, const int64_t* offsets, const int32_t* sizes,
                                        int64_t masks, const int64_t* run_offsets, int32_t* counts,
                                        int64_t* problem, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    FirstError first(kNoError);
    const auto pixels = [=](int64_t m) { return static_cast<int64_t>(sizes[2 * m]) * sizes[2 * m + 1]; };
    for_each_mask(masks, offsets[masks] - offsets[0], threads, [&](int64_t m) {
      const int64_t size = offsets[m + 1] - offsets[m];
      if (decode_runs(text + offsets[m], size, pixels(m), counts + run_offsets[m]) < 0) first.note(m);
    });
    problem[0] = first.code() == kNoError ? -1 : first.code();
    if (problem[0] < 0) return;
    const int64_t m = problem[0];
    const RunProblem found = explain_runs(text + offsets[m], offsets[m + 1] - offsets[m], pixels(m));
    problem[1] = found.error;
    problem[2] = found.position;
    problem[3] = found.value;
  });
}

// RunProblem of a string.
VALOR_API int32_t valor_explain_runs_cpu(const uint8_t* text, int64_t size, int64_t pixels,
                                         int64_t* problem) {
  return valor::guarded([&] {
    const valor::RunProblem found = valor::explain_runs(text, size, pixels);
    problem[0] = found.error;
    problem[1] = found.position;
    problem[2] = found.value;
  });
}

// Runs -> where the characters of each mask begin.
VALOR_API int32_t valor_run_characters_cpu(const void* run_words, int64_t* offsets, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs& runs = runs_at(run_words);
    for_each_mask(runs.masks, runs.offsets[runs.masks], threads, [&](int64_t m) {
      const int32_t* const counts = runs.begin(m);
      int64_t characters = 0;
      for (int64_t i = 0; i < runs.size(m); ++i) characters += run_characters(run_difference(counts, i));
      offsets[m + 1] = characters;
    });
    add_up(offsets, runs.masks);
  });
}

// Runs -> strings, at those places.
VALOR_API int32_t valor_encode_runs_cpu(const void* run_words, const int64_t* offsets, uint8_t* text,
                                        int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs& runs = runs_at(run_words);
    for_each_mask(runs.masks, runs.offsets[runs.masks], threads, [&](int64_t m) {
      const int32_t* const counts = runs.begin(m);
      uint8_t* out = text + offsets[m];
      for (int64_t i = 0; i < runs.size(m); ++i) out = write_run(run_difference(counts, i), out);
    });
  });
}

// `bad` receives the first mask whose runs are negative or do not add up to its pixels, or -1.
VALOR_API int32_t valor_check_runs_cpu(const void* run_words, int64_t* bad, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs& runs = runs_at(run_words);
    FirstError first(kNoError);
    for_each_mask(runs.masks, runs.offsets[runs.masks] / 8, threads, [&](int64_t m) {
      if (!are_runs(runs.begin(m), runs.size(m), runs.pixels(m))) first.note(m);
    });
    *bad = first.code() == kNoError ? -1 : first.code();
  });
}

// Areas [N], and boxes [N, 4] as left, top, width and height unless null.
VALOR_API int32_t valor_measure_runs_cpu(const void* run_words, int64_t* areas, double* boxes,
                                         int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs& runs = runs_at(run_words);
    for_each_mask(runs.masks, runs.offsets[runs.masks], threads, [&](int64_t m) {
      if (!boxes) {
        areas[m] = 0;
        for (int64_t i = 1; i < runs.size(m); i += 2) areas[m] += runs.begin(m)[i];
        return;
      }
      RunMeasure measure(runs.height(m));
      for_each_run(runs.begin(m), runs.size(m),
                   [&](uint32_t begin, uint32_t end) { measure.add(begin, end); });
      areas[m] = measure.area();
      const RunBox box = measure.box();
      boxes[4 * m] = box.left;
      boxes[4 * m + 1] = box.top;
      boxes[4 * m + 2] = static_cast<double>(box.right) - box.left;
      boxes[4 * m + 3] = static_cast<double>(box.bottom) - box.top;
    });
  });
}

// Unions or intersections of masks groups[k] to groups[k + 1] - 1, at least one, of one size. Writes where
// the runs of each begin, and the address of a list for valor_collect_runs_cpu.
VALOR_API int32_t valor_merge_runs_cpu(const void* run_words, const int64_t* groups, int64_t num_groups,
                                       int64_t intersect, int64_t* offsets, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs& runs = runs_at(run_words);
    const int64_t grain = masks_per_chunk(runs.offsets[runs.masks], num_groups);
    auto merged = list_runs(num_groups, grain, static_cast<int>(threads), offsets,
                            [&](int64_t k, std::vector<int32_t>& out) {
                              merge_group(runs, groups[k], groups[k + 1], intersect != 0, out);
                            });
    *list = reinterpret_cast<int64_t>(merged.release());
  });
}

// Writes the runs of a list to `counts`, unless null, and frees the list.
VALOR_API int32_t valor_collect_runs_cpu(int64_t list, int32_t* counts) {
  return valor::guarded([&] {
    const std::unique_ptr<valor::RunList> runs(reinterpret_cast<valor::RunList*>(list));
    if (!counts) return;
    for (const std::vector<int32_t>& part : runs->parts) counts = std::copy(part.begin(), part.end(), counts);
  });
}

// IoU of every mask with every ground truth, [D, G]; -1 where sizes differ but boxes meet. crowd is [G] or
// null.
VALOR_API int32_t valor_run_iou_cpu(const void* run_words, const void* gt_words, const uint8_t* crowd,
                                    double* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Runs &runs = runs_at(run_words), &gts = runs_at(gt_words);
    const MeasuredMasks detections(runs), truths(gts);
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < gts.masks; ++j) {
          const bool same = runs.height(i) == gts.height(j) && runs.width(i) == gts.width(j);
          out[i * gts.masks + j] = run_iou(detections[i], truths[j], same, crowd && crowd[j],
                                           static_cast<uint32_t>(runs.height(i)));
        }
    };
    const int64_t per_row = 16 * gts.masks + gts.offsets[gts.masks];  // about how many steps a row takes
    const int64_t grain = std::max<int64_t>(1, kRunsPerChunk / (per_row + 1));
    parallel_for(runs.masks, grain, static_cast<int>(threads), body);
  });
}
