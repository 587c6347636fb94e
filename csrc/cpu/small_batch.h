// Updates of small batches: one call reads the old state and the batch and writes the sum to fresh memory, on
// one core. A batch with a bad value returns kRefused; what was written then is not to be used.
#pragma once
#include <new>
#include <stdexcept>
#include <vector>

#include "../core/targets.h"
#include "guard.h"

namespace valor {

// Of a function of the C interface that another one calls: its status as an exception again.
inline void require(int32_t status) {
  if (status == kOutOfMemory) throw std::bad_alloc();
  if (status != kDone) throw std::runtime_error("a kernel failed");
}

inline void refuse(int64_t error) {
  if (error != kNoError) throw Refused();
}

// Whether scores have to go through their activation first, which Python computes.
enum Activation : int64_t {
  kNoActivation = 0,
  kWhenOutside = 1,  // when a score that counts lies outside [0, 1]
  kAlways = 2,
  kLogits = 3,  // scores went through it, since one lay outside [0, 1]
};

// What updates know of a batch before it comes. The fields are 64-bit words: Python packs them.
struct SmallBatch {
  int64_t type;  // of predictions, a FloatType, of hard labels an IntType
  int64_t hard;
  int64_t rows;
  int64_t activation;
  Target target;  // without its address

  Target target_at(const void* data) const {
    Target found = target;
    found.data = data;
    return found;
  }
  double score(const void* preds, int64_t index) const {
    return load_float64(preds, index, static_cast<FloatType>(type));
  }
  int64_t label(const void* preds, int64_t index) const {
    return load_int(preds, index, static_cast<IntType>(type));
  }
  // Whether a score is at least `least`, or a hard label, 0 or 1, is 1.
  bool positive(const void* preds, int64_t index, double least) const {
    if (!hard) return score(preds, index) >= least;
    const int64_t found = label(preds, index);
    if (found != 0 && found != 1) throw Refused();
    return found == 1;
  }
};
static_assert(sizeof(SmallBatch) == 80, "valor_gpu/classification/plans.py packs ten words");

// Refuses a batch with a bad target or a NaN that counts; says so if its scores want an activation.
inline void check_scores(const SmallBatch& batch, const void* preds, const Target& target) {
  bool outside = false;
  for (int64_t row = 0, i = 0; row < batch.rows; ++row)
    for (int64_t column = 0; column < target.classes; ++column, ++i) {
      const Truth truth = target.at(row, column);
      if (truth == kIgnored) continue;
      const double score = batch.score(preds, i);
      if (truth == kBadTruth || score != score) throw Refused();
      outside |= score < 0 || score > 1;
    }
  if (batch.activation == kAlways || (batch.activation == kWhenOutside && outside)) throw Activate();
}

// marks: batches taken for logits, and all whose scores decided that; none if nothing in it counts.
inline void add_marks(const SmallBatch& batch, bool counts, const int64_t* old, int64_t* now) {
  const bool logits = batch.activation == kLogits;
  const bool decided = counts && !batch.hard && (logits || batch.activation == kWhenOutside);
  now[0] = old[0] + (decided && logits);
  now[1] = old[1] + decided;
}

// seen: rows, targets equal to the index to ignore, and marks.
inline void add_seen(const SmallBatch& batch, const Target& target, const int64_t* old, int64_t* now) {
  const int64_t count = batch.rows * (target.per_element ? target.classes : 1);
  int64_t ignored = 0;
  for (int64_t i = 0; target.has_ignore && i < count; ++i) ignored += target.value(i) == target.ignore;
  now[0] = old[0] + batch.rows;
  now[1] = old[1] + ignored;
  add_marks(batch, ignored < count, old + 2, now + 2);
}

template <class Count>
void add_to(const double* old, const std::vector<Count>& counts, double* now) {
  for (size_t i = 0; i < counts.size(); ++i) now[i] = old[i] + static_cast<double>(counts[i]);
}

}  // namespace valor
