// Scored documents of queries, read once: batches that become rows of a state, and the state in narrow types.
#include <stdint.h>

#include <algorithm>
#include <atomic>

#include "../core/load.h"
#include "../core/queries.h"
#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

constexpr int64_t kLeastSlice = 1 << 15;  // documents that are worth a thread
constexpr double kUnjudged = -1.0;        // target of a state; that of an ignored document is NaN

// Calls run(begin, end) over all documents; false once a call has given false.
template <class Run>
bool over_documents(int64_t rows, int64_t threads, const Run& run) {
  std::atomic<bool> good{true};
  auto body = [&](int64_t begin, int64_t end) {
    if (good && !run(begin, end)) good = false;
  };
  parallel_for(rows, kLeastSlice, static_cast<int>(std::min(threads, rows / kLeastSlice + 1)), body);
  return good;
}

// Calls use(values, convert) for an array of a type, which convert makes numbers of.
template <class Use>
bool with_floats(FloatType type, const void* base, const Use& use) {
  switch (type) {
    case kFloat16:
      return use(static_cast<const uint16_t*>(base),
                 [](uint16_t half) { return double{half_to_float(half)}; });
    case kBFloat16:
      return use(static_cast<const uint16_t*>(base),
                 [](uint16_t half) { return double{bfloat16_to_float(half)}; });
    case kFloat32:
      return use(static_cast<const float*>(base), [](float value) { return double{value}; });
    default:
      return use(static_cast<const double*>(base), [](double value) { return value; });
  }
}

template <class Use>
bool with_ints(IntType type, const void* base, const Use& use) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case kInt8:
      return use(static_cast<const int8_t*>(base), same);
    case kInt16:
      return use(static_cast<const int16_t*>(base), same);
    case kInt32:
      return use(static_cast<const int32_t*>(base), same);
    case kInt64:
      return use(static_cast<const int64_t*>(base), same);
    default:
      return use(static_cast<const uint8_t*>(base), same);
  }
}

// Fields are 64-bit words: valor_gpu/retrieval/plans.py packs them.
struct DocumentsPlan {
  int64_t type, target_type, index_type;  // target_type as query_scores knows it
  int64_t graded;                         // targets are grades, or else 0 and 1
  int64_t has_ignore, has_unjudged;
  double ignore, unjudged;  // targets of documents that are left out, or not judged
};

struct DocumentsCall {  // number of documents and of threads; addresses
  int64_t rows, threads;
  const void *preds, *target, *indexes;
  double *new_preds, *new_target;
  int64_t* new_indexes;
};

class Documents {
 public:
  Documents(const DocumentsPlan& plan, const DocumentsCall& call) : plan_(plan), call_(call) {}

  // Writes rows of the state; false where a value is bad.
  bool copy(int64_t begin, int64_t end) const {
    return copy_targets(begin, end) && copy_scores(begin, end) && copy_indexes(begin, end);
  }

 private:
  bool copy_targets(int64_t begin, int64_t end) const {
    const auto copy = [&](const auto* from, const auto& convert) {
      const bool marks = plan_.has_ignore || plan_.has_unjudged;
      return marks ? copy_marked(from, convert, begin, end) : copy_plain(from, convert, begin, end);
    };
    if (plan_.target_type >= kFloatTarget)
      return with_floats(static_cast<FloatType>(plan_.target_type - kFloatTarget), call_.target, copy);
    return with_ints(static_cast<IntType>(plan_.target_type), call_.target, copy);
  }

  bool good(double grade) const {
    return plan_.graded ? grade >= 0.0 && grade < kInfinity : grade == 0.0 || grade == 1.0;
  }

  template <class Value, class Convert>
  bool copy_plain(const Value* from, const Convert& convert, int64_t begin, int64_t end) const {
    double* const to = call_.new_target;
    bool all = true;
    for (int64_t i = begin; i < end; ++i) {
      const double grade = to[i] = static_cast<double>(convert(from[i]));
      all &= good(grade);
    }
    return all;
  }

  template <class Value, class Convert>
  bool copy_marked(const Value* from, const Convert& convert, int64_t begin, int64_t end) const {
    double* const to = call_.new_target;
    bool all = true;
    for (int64_t i = begin; i < end; ++i) {
      const double grade = static_cast<double>(convert(from[i]));
      const bool ignored = plan_.has_ignore && grade == plan_.ignore;
      const bool unjudged = plan_.has_unjudged && grade == plan_.unjudged;
      to[i] = ignored ? not_a_number() : unjudged ? kUnjudged : grade;
      all &= ignored || unjudged || good(grade);
    }
    return all;
  }

  bool copy_scores(int64_t begin, int64_t end) const {
    return with_floats(
        static_cast<FloatType>(plan_.type), call_.preds, [&](const auto* from, const auto& convert) {
          bool numbers = true;
          for (int64_t i = begin; i < end; ++i) {
            const double score = call_.new_preds[i] = convert(from[i]);
            numbers &= score == score;
          }
          for (int64_t i = begin; i < end && !numbers; ++i)  // that of an ignored document may be NaN
            if (call_.new_preds[i] != call_.new_preds[i] && call_.new_target[i] == call_.new_target[i])
              return false;
          return true;
        });
  }

  bool copy_indexes(int64_t begin, int64_t end) const {
    return with_ints(static_cast<IntType>(plan_.index_type), call_.indexes,
                     [&](const auto* from, const auto&) {
                       std::copy(from + begin, from + end, call_.new_indexes + begin);
                       return true;
                     });
  }

  static constexpr double kInfinity = __builtin_inf();

  const DocumentsPlan& plan_;
  const DocumentsCall& call_;
};

void add_documents(const DocumentsPlan& plan, const DocumentsCall& call) {
  const Documents documents(plan, call);
  const auto copy = [&](int64_t begin, int64_t end) { return documents.copy(begin, end); };
  if (!over_documents(call.rows, call.threads, copy)) throw Refused();
}

struct NarrowCall {  // number of documents and of threads; addresses
  int64_t rows, threads;
  const double *preds, *target;
  float* new_preds;
  int8_t* new_target;
  int64_t* lossless;  // [2]: whether scores, and targets, are the same numbers in narrow types
};

// Whether every number is the same in another type, to which it is written.
template <class Narrow, class Convert>
bool narrow_all(const NarrowCall& call, const double* from, Narrow* to, const Convert& convert) {
  return over_documents(call.rows, call.threads, [&](int64_t begin, int64_t end) {
    bool all = true;
    for (int64_t i = begin; i < end; ++i) {
      to[i] = convert(from[i]);
      all &= static_cast<double>(to[i]) == from[i];
    }
    return all;
  });
}

void narrow_documents(const NarrowCall& call) {
  call.lossless[0] =
      narrow_all(call, call.preds, call.new_preds, [](double value) { return static_cast<float>(value); });
  call.lossless[1] = narrow_all(call, call.target, call.new_target, [](double value) {
    return static_cast<int8_t>(value >= -1.0 && value <= 127.0 ? static_cast<int32_t>(value) : 127);
  });
}

}  // namespace
}  // namespace valor

// Refuses a batch with a bad value, of which nothing written is to be used.
VALOR_API int32_t valor_add_documents_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    valor::add_documents(*static_cast<const valor::DocumentsPlan*>(plan_words),
                         *static_cast<const valor::DocumentsCall*>(call_words));
  });
}

// plan_words are not read.
VALOR_API int32_t valor_narrow_documents_cpu(const void*, const void* call_words) {
  return valor::guarded([&] { valor::narrow_documents(*static_cast<const valor::NarrowCall*>(call_words)); });
}
