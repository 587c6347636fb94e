// Ranking and pairing off of overlaps on the CPU: each datum by one thread, which sorts what the rules order.
#include "../core/overlaps.h"

#include <algorithm>
#include <vector>

#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

constexpr int64_t kRowsOfThread = 16384;  // detections and pairs: waking a thread for fewer saves nothing

// Calls fn(datum) for every datum, by several threads.
template <class Fn>
void each_datum(const OverlapTable& table, int64_t threads, const Fn& fn) {
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t datum = begin; datum < end; ++datum) fn(datum);
  };
  const int64_t useful = std::min(threads, 1 + (table.rows + table.pairs) / kRowsOfThread);
  parallel_for(table.datums, std::clamp<int64_t>(table.datums / 64, 1, 256), static_cast<int>(useful), body);
}

// The first error of a table. What a later look reads is in bounds where an earlier one finds nothing.
int64_t table_error(const OverlapTable& table, int64_t threads) {
  FirstError first;
  for (int64_t datum = 0; datum < std::max<int64_t>(table.datums, 1); ++datum)
    first.note(table.size_error(datum));
  for (int64_t row = 0; row < std::max<int64_t>(table.rows, 1); ++row) first.note(table.row_error(row));
  if (first.code() == kNoError)
    each_datum(table, threads, [&](int64_t datum) {
      for (int64_t row = table.first_rows()[datum]; row < table.first_rows()[datum + 1]; ++row)
        first.note(table.pair_error(row, datum));
    });
  return first.code();
}

// The detections of a datum, as they came.
std::vector<int64_t>& rows_of(const OverlapTable& table, int64_t datum) {
  thread_local std::vector<int64_t> rows;
  const int64_t first = table.first_rows()[datum];
  rows.resize(static_cast<size_t>(table.first_rows()[datum + 1] - first));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = first + static_cast<int64_t>(i);
  return rows;
}

// One value of each ground truth of a datum.
template <class T>
T* values_of_gts(const OverlapTable& table, int64_t datum) {
  thread_local std::vector<T> values;
  values.assign(static_cast<size_t>(table.first_gts()[datum + 1] - table.first_gts()[datum]), T{});
  return values.data();
}

void rank(const OverlapTable& table, const RankedRows& out, int64_t datum) {
  std::vector<int64_t>& rows = rows_of(table, datum);
  double* const reached = values_of_gts<double>(table, datum);
  std::sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) { return out.goes_before(table, a, b); });
  for (const int64_t row : rows) {
    if (out.best[row] < 0) continue;
    double& most = reached[out.best[row] - table.first_gts()[datum]];
    out.before[row] = most;
    if (table.score(row) > 0.0) most = std::max(most, out.ious[row]);
  }
}

void rank_by_document(const OverlapTable& table, const RankedRows& out, int64_t datum) {
  const DocRule rule;
  std::vector<int64_t>& rows = rows_of(table, datum);
  uint8_t* const taken = values_of_gts<uint8_t>(table, datum);
  const int64_t first_gt = table.first_gts()[datum];
  std::sort(rows.begin(), rows.end(),
            [&](int64_t a, int64_t b) { return rule.goes_before(table, a, 0, b, 0); });
  for (const int64_t row : rows) {
    const Overlap found = table.best(row, [&](int64_t pair) {
      return rule.allows(table, row, pair) && !taken[table.gt(pair) - first_gt];
    });
    out.best[row] = found.gt;
    out.ious[row] = found.iou;
    if (found.gt >= 0) taken[found.gt - first_gt] = 1;
  }
}

struct Candidate {
  int64_t row, pair;
};

// The pairs of a datum in the order of ConfuseRule.
const std::vector<Candidate>& ordered_pairs(const OverlapTable& table, int64_t datum) {
  thread_local std::vector<Candidate> pairs;
  pairs.clear();
  for (int64_t row = table.first_rows()[datum]; row < table.first_rows()[datum + 1]; ++row)
    for (int64_t pair = table.first_pair(row); pair < table.first_pair(row + 1); ++pair)
      pairs.push_back({row, pair});
  const ConfuseRule rule{0.0};
  std::sort(pairs.begin(), pairs.end(), [&](const Candidate& a, const Candidate& b) {
    return rule.goes_before(table, a.row, a.pair, b.row, b.pair);
  });
  return pairs;
}

void confuse(const OverlapTable& table, const double* thresholds, int64_t count, bool dissolve, int64_t* out,
             int64_t datum) {
  const std::vector<Candidate>& pairs = ordered_pairs(table, datum);
  const int64_t first = table.first_rows()[datum], end = table.first_rows()[datum + 1];
  for (int64_t t = 0; t < count; ++t) {
    const ConfuseRule rule{dissolve ? 0.0 : thresholds[t]};
    int64_t* const partners = out + t * table.rows;
    uint8_t* const taken = values_of_gts<uint8_t>(table, datum);
    std::fill(partners + first, partners + end, int64_t{-1});
    for (const Candidate& at : pairs) {
      uint8_t& used = taken[table.gt(at.pair) - table.first_gts()[datum]];
      if (used || partners[at.row] >= 0 || !rule.allows(table, at.row, at.pair)) continue;
      used = 1;
      partners[at.row] = at.pair;
    }
    for (int64_t row = first; row < end; ++row) {
      const int64_t pair = partners[row];
      partners[row] = pair >= 0 && table.iou(pair) >= thresholds[t] ? table.gt(pair) : -1;
    }
  }
}

}  // namespace
}  // namespace valor

// Ranks the detections of an OverlapTable. `error` receives the first error code; the rest is set where it is
// kNoError.
VALOR_API int32_t valor_rank_overlaps_cpu(const void* table_words, int32_t document, int64_t* best,
                                          double* ious, double* before, double* others, int64_t* error,
                                          int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const OverlapTable& table = *static_cast<const OverlapTable*>(table_words);
    const RankedRows out{best, ious, before, others};
    if ((*error = table_error(table, threads)) != kNoError) return;
    each_datum(table, threads, [&](int64_t datum) {
      for (int64_t row = table.first_rows()[datum]; row < table.first_rows()[datum + 1]; ++row)
        out.choose(table, row);
      document ? rank_by_document(table, out, datum) : rank(table, out, datum);
    });
  });
}

// Pairs detections off at each threshold: `partners` is int64 [thresholds, D], a ground truth or -1. `error`
// as above.
VALOR_API int32_t valor_confuse_overlaps_cpu(const void* table_words, const double* thresholds, int64_t count,
                                             int32_t dissolve, int64_t* partners, int64_t* error,
                                             int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const OverlapTable& table = *static_cast<const OverlapTable*>(table_words);
    if ((*error = table_error(table, threads)) != kNoError) return;
    each_datum(table, threads,
               [&](int64_t datum) { confuse(table, thresholds, count, dissolve, partners, datum); });
  });
}
