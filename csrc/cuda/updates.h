// An update in few launches: `begin` clears scratch memory, kernels count a batch in it, and `merge` writes
// the new state, which is the old one and the batch. Nothing is changed in place.
#pragma once
#include "../core/targets.h"

namespace valor {

// Status of an update that counted nothing: the checked path serves the batch.
constexpr int32_t kRefused = 1;

// The first words of scratch memory; tables follow.
struct BatchWords {
  static constexpr int64_t kSize = 8;  // words, of which the last ones are free
  int64_t error;                       // the first error of the batch
  int64_t rows;                        // from here on the four words of `seen`
  int64_t ignored;                     // targets equal to the index to ignore
  int64_t logits, decided;             // marks; without meaning where every target is ignored
};

// How a piece of a state and one of a batch make one of the new state.
enum Merging : int64_t {
  kAddCounts = 0,      // float64 + int64
  kLeastInteger = 1,   // the smaller of two int64
  kAddSeen = 2,        // int64 + BatchWords from `rows` on; `extent`: elements of the target
  kAddTotal = 3,       // float64 + the sum of `extent` int64
  kAddOutcomes = 4,    // float64 [4, L] + an int64 histogram [2, L, 2]; `extent`: L
  kAddConfusions = 5,  // float64 [L, 2, 2] + the same
  kAtMostOne = 6,      // float64, or 1 if that is less
  kLeastError = 7,     // as kLeastInteger, of error codes, for labels that were counted as scores
};

struct Piece {
  const void* old;
  const void* batch;
  void* now;
  int64_t count;  // elements of `now`
  int64_t how;    // a Merging
  int64_t extent = 0;
};

struct MergeTask {
  static constexpr int kPieces = 6;
  Piece pieces[kPieces] = {};  // without elements at the end
};

// Lets scratch memory hold `words` and then `zeros` words of 0.
int32_t begin(int64_t* scratch, const BatchWords& words, int64_t zeros, void* stream);
int32_t merge(const MergeTask& task, void* stream);
// Adds to `word` how many of `count` targets are those to ignore. Without such a value nothing is launched.
int32_t count_ignored(const Target& target, int64_t count, int64_t* word, void* stream);

// What updates know of a batch before it comes. The fields are 64-bit words: Python packs them.
struct UpdateBatch {
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
};
static_assert(sizeof(UpdateBatch) == 80, "valor_gpu/classification/plans.py packs ten words");

// Where a batch, a state of a table, `seen` and the error, the new state and scratch memory lie.
struct TableUpdate {
  const void* preds;
  const void* target;
  const double* old_table;
  const int64_t* old_seen;
  const int64_t* old_error;
  double* table;
  int64_t* seen;
  int64_t* error;
  int64_t* scratch;
  void* stream;

  BatchWords* words() const { return reinterpret_cast<BatchWords*>(scratch); }
  int64_t* counts() const { return scratch + BatchWords::kSize; }
  // The pieces of `seen` and the error.
  Piece seen_piece(int64_t elements) const { return {old_seen, &words()->rows, seen, 4, kAddSeen, elements}; }
  Piece error_piece() const { return {old_error, &words()->error, error, 1, kLeastInteger}; }
};

}  // namespace valor
