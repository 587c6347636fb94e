// CPU drivers of query_scores and query_hits: the documents of a query are gathered by rank, then scored.
#include "../core/queries.h"

#include <functional>
#include <stdexcept>
#include <vector>

#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

constexpr int64_t kDocumentsPerHelper = 1 << 14;  // waking a thread for fewer takes longer than it saves
constexpr int64_t kGrades = 64;                   // whole grades below it are counted, not sorted
constexpr int64_t kAhead = 16;                    // rows of a gather that are fetched ahead
constexpr int64_t kNext = 256;                    // documents of the next query that are

// Reads row by row, of whatever type: calls take(position, value) for rows from[0] to from[count - 1].
template <class Value, class Convert>
void gather(const void* base, const int64_t* from, int64_t count, int64_t rows, double* to,
            const Convert& convert) {
  const Value* values = static_cast<const Value*>(base);
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(from[i]) >= static_cast<uint64_t>(rows))
      throw std::out_of_range("order names a row that is not there");
    if (i + kAhead < count) __builtin_prefetch(values + (from[i + kAhead]));
    to[i] = convert(values[from[i]]);
  }
}

template <class Value>
void gather(const void* base, const int64_t* from, int64_t count, int64_t rows, double* to) {
  gather<Value>(base, from, count, rows, to, [](Value value) { return static_cast<double>(value); });
}

void gather_floats(FloatType type, const void* base, const int64_t* from, int64_t count, int64_t rows,
                   double* to) {
  switch (type) {
    case kFloat16:
      return gather<uint16_t>(base, from, count, rows, to,
                              [](uint16_t half) { return static_cast<double>(half_to_float(half)); });
    case kBFloat16:
      return gather<uint16_t>(base, from, count, rows, to,
                              [](uint16_t half) { return static_cast<double>(bfloat16_to_float(half)); });
    case kFloat32:
      return gather<float>(base, from, count, rows, to);
    default:
      return gather<double>(base, from, count, rows, to);
  }
}

void gather_grades(int64_t type, const void* base, const int64_t* from, int64_t count, int64_t rows,
                   double* to) {
  if (type >= kFloatTarget)
    return gather_floats(static_cast<FloatType>(type - kFloatTarget), base, from, count, rows, to);
  switch (type) {
    case kInt8:
      return gather<int8_t>(base, from, count, rows, to);
    case kInt16:
      return gather<int16_t>(base, from, count, rows, to);
    case kInt32:
      return gather<int32_t>(base, from, count, rows, to);
    case kInt64:
      return gather<int64_t>(base, from, count, rows, to);
    default:
      return gather<uint8_t>(base, from, count, rows, to);
  }
}

// Fetches the documents of the next query while one is scored: `bytes` of a value.
void fetch_ahead(const void* base, int64_t bytes, const int64_t* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) __builtin_prefetch(static_cast<const char*>(base) + from[i] * bytes);
}

int64_t grade_bytes(int64_t type) {
  if (type >= kFloatTarget) return float_bytes(static_cast<FloatType>(type - kFloatTarget));
  return type == kInt64 ? 8 : type == kInt32 ? 4 : type == kInt16 ? 2 : 1;
}

// Grades in descending order; what is not relevant is 0.
class BestGrades {
 public:
  const double* of(const double* grades, int64_t count) {
    if (static_cast<int64_t>(best_.size()) < count) best_.resize(count);
    int64_t counts[kGrades] = {};
    bool whole = true;
    for (int64_t i = 0; i < count; ++i) {
      const double grade = best_[i] = grades[i] > 0.0 ? grades[i] : 0.0;
      const bool small = grade < kGrades && grade == static_cast<double>(static_cast<int64_t>(grade));
      if (small) ++counts[static_cast<int64_t>(grade)];
      whole &= small;
    }
    if (whole) {
      double* to = best_.data();
      for (int64_t grade = kGrades - 1; grade >= 0; --grade)
        to = std::fill_n(to, counts[grade], static_cast<double>(grade));
    } else {
      std::sort(best_.begin(), best_.begin() + count, std::greater<double>());
    }
    return best_.data();
  }

 private:
  std::vector<double> best_;
};

// A query's documents in arrays, scores for as many as most measures read; others are few.
struct GatheredDocs {
  const double *grades, *scores, *best_grades;
  int64_t count, scored;
  const int64_t* rows;
  const QueryTask& task;

  int64_t size() const { return count; }
  double grade(int64_t i) const { return grades[i]; }
  double score(int64_t i) const {
    return i < scored ? scores[i] : load_float64(task.preds, rows[i], static_cast<FloatType>(task.type));
  }
  double best(int64_t i) const { return best_grades[i]; }
};

// Offsets may be a slice, so that the first is any.
void check_offsets(const int64_t* offsets, int64_t queries, int64_t rows) {
  bool good = offsets[0] >= 0 && offsets[queries] <= rows;
  for (int64_t q = 0; q < queries; ++q) good &= offsets[q] <= offsets[q + 1];
  if (!good) throw std::out_of_range("offsets do not ascend inside the rows");
}

// Calls run(begin, end) over ranges of queries.
template <class Run>
void over_queries(const int64_t* offsets, int64_t queries, int64_t threads, Run& run) {
  const int64_t documents = offsets[queries] - offsets[0];
  threads = std::min(threads, documents / kDocumentsPerHelper + 1);
  parallel_for(queries, std::max<int64_t>(1, queries / (16 * threads)), static_cast<int>(threads), run);
}

void score_all(const QueryTask& task) {
  check_offsets(task.offsets, task.queries, task.rows);
  const auto read_scores = [&](int64_t count) {
    if (!ties_count(task.measure)) return int64_t{0};
    return task.top_k > 0 && task.top_k < count ? task.top_k + 1 : count;
  };
  auto body = [&](int64_t begin, int64_t end) {
    std::vector<double> grades, scores;
    BestGrades best;
    for (int64_t q = begin; q < end; ++q) {
      const int64_t* rows = task.order + task.offsets[q];
      const int64_t count = task.offsets[q + 1] - task.offsets[q];
      if (static_cast<int64_t>(grades.size()) < count) grades.resize(count), scores.resize(count);
      gather_grades(task.target_type, task.target, rows, count, task.rows, grades.data());
      const int64_t scored = read_scores(count);
      gather_floats(static_cast<FloatType>(task.type), task.preds, rows, scored, task.rows, scores.data());
      if (q + 1 < end) {
        const int64_t next = std::min(kNext, task.offsets[q + 2] - task.offsets[q + 1]);
        fetch_ahead(task.target, grade_bytes(task.target_type), rows + count, next);
        fetch_ahead(task.preds, float_bytes(static_cast<FloatType>(task.type)), rows + count,
                    read_scores(next));
      }
      const double* sorted = normalised(task.measure) ? best.of(grades.data(), count) : nullptr;
      const GatheredDocs docs{grades.data(), scores.data(), sorted, count, scored, rows, task};
      write_query_score(OneLane(), docs, task, q);
    }
  };
  over_queries(task.offsets, task.queries, task.threads, body);
}

void count_hits(const QueryHitsTask& task) {
  check_offsets(task.offsets, task.queries, task.rows);
  auto body = [&](int64_t begin, int64_t end) {
    std::vector<double> grades;
    for (int64_t q = begin; q < end; ++q) {
      const int64_t count = task.offsets[q + 1] - task.offsets[q];
      if (static_cast<int64_t>(grades.size()) < count) grades.resize(count);
      gather_grades(task.target_type, task.target, task.order + task.offsets[q], count, task.rows,
                    grades.data());
      int32_t* hits = task.hits + q * task.max_k;
      const int64_t shown = std::min(count, task.max_k);
      int64_t found = 0, relevant = 0;
      for (int64_t i = 0; i < shown; ++i) hits[i] = static_cast<int32_t>(found += grades[i] > 0.0);
      std::fill(hits + shown, hits + task.max_k, static_cast<int32_t>(found));
      for (int64_t i = 0; i < count; ++i) relevant += grades[i] > 0.0;
      task.relevant[q] = relevant;
    }
  };
  over_queries(task.offsets, task.queries, task.threads, body);
}

}  // namespace
}  // namespace valor

// Fills scores and status.
VALOR_API int32_t valor_query_scores_cpu(const valor::QueryTask* task) {
  return valor::guarded([&] { valor::score_all(*task); });
}

// Fills hits and relevant.
VALOR_API int32_t valor_query_hits_cpu(const valor::QueryHitsTask* task) {
  return valor::guarded([&] { valor::count_hits(*task); });
}
