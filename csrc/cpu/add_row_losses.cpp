// Updates of the means of losses of probabilities: squared errors, with sums over bins, and logarithms. Rows
// are read once, or twice where the first reading shows that scores are logits.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to what is inlined alone

#include "../core/activation.h"
#include "../core/probability_losses.h"
#include "moment_terms.h"
#include "pool.h"
#include "simd.h"
#include "small_batch.h"

namespace valor {
namespace {

constexpr int64_t kLeastElements = 1 << 15, kMostSlices = 64;  // that are worth a slice; of a batch
constexpr int64_t kLossSums = 4;                               // LossSums of row_losses.py

struct LossPlan {
  SmallBatch batch;
  int64_t squared;         // or else logarithms
  double lowest, highest;  // of a loss that is a logarithm
  const double* edges;     // [bins + 1], from 0 to 1, of squared errors
  int64_t bins;
  const double* weight;  // [rows], or null
  int64_t threads;

  int64_t cells() const { return squared ? batch.target.classes * (bins + 1) : 0; }
};

// Addresses: predictions, target; sums [4], seen [4] and of squared errors bins [3, cells], old ones and then
// new ones; null, or losses [rows] and target [rows] of the state.
struct LossCall {
  void* const* words;
  int64_t fields;

  const void* preds() const { return words[0]; }
  const void* target() const { return words[1]; }
  template <class Value>
  const Value* old(int64_t field) const {
    return static_cast<const Value*>(words[2 + field]);
  }
  template <class Value>
  Value* now(int64_t field) const {
    return static_cast<Value*>(words[2 + fields + field]);
  }
  template <class Value>
  Value* row(int64_t field) const {
    return static_cast<Value*>(words[2 + 2 * fields + field]);
  }
};

// A block of rows: of the binary task or of losses by a logarithm of a probability, that probability and
// whether it is of the right class.
struct Block {
  double scores[kBlock], truth[kBlock], weight[kBlock], losses[kBlock];
  int64_t labels[kBlock];
};

// Sums over the rows of a slice: which rows those are depends on the size of the batch alone.
struct Slice {
  double sums[kLossSums][kPackLanes] = {};
  std::vector<double> bins;  // [cells, 3]
  int64_t ignored = 0;
};

VALOR_CLONES void read_scores(const void* from, FloatType type, int64_t start, int64_t count, double* to) {
  if (type == kFloat64)
    for (int64_t i = 0; i < count; ++i) to[i] = load_float64(from, start + i, kFloat64);
  else if (type == kFloat32)
    for (int64_t i = 0; i < count; ++i) to[i] = load_float64(from, start + i, kFloat32);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = load_float64(from, start + i, type);
}

VALOR_CLONES void read_labels(const Target& target, int64_t start, int64_t count, int64_t* to) {
  const IntType type = static_cast<IntType>(target.type);
  if (type == kInt64)
    for (int64_t i = 0; i < count; ++i) to[i] = load_int(target.data, start + i, kInt64);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = load_int(target.data, start + i, type);
}

// What a block of the binary task holds.
struct Found {
  int64_t bad = 0, outside = 0, ignored = 0;
};

// Makes labels truths, and of scores that do not count 0.
VALOR_CLONES Found check_block(const Target& target, int64_t count, Block& block) {
  Found found;
  const int64_t ignore = target.ignore, ignores = target.has_ignore ? -1 : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = block.labels[i], ignored = ignores & -static_cast<int64_t>(label == ignore);
    const double score = ignored ? 0.0 : block.scores[i];
    found.bad |= (~ignored & label & ~int64_t{1}) | -static_cast<int64_t>(score != score);
    found.outside |= -static_cast<int64_t>(score < 0.0) | -static_cast<int64_t>(score > 1.0);
    found.ignored -= ignored;
    block.scores[i] = score;
    block.truth[i] = label == 1 ? 1.0 : 0.0;
    block.weight[i] = ignored ? 0.0 : block.weight[i];
  }
  return found;
}

// `count` is a multiple of kPackLanes here and below.
VALOR_CLONES void square_errors(int64_t count, Block& block) {
  for (int64_t i = 0; i < count; ++i) {
    const double error = block.scores[i] - block.truth[i];
    block.losses[i] = error * error;
  }
}

template <bool kLogit>
VALOR_INLINE void take_logarithms(const LossPlan& plan, int64_t count, Block& block) {
  for (int64_t i = 0; i < count; i += kPackLanes) {
    Pack score, truth;
    memcpy(&score, block.scores + i, sizeof score);
    memcpy(&truth, block.truth + i, sizeof truth);
    const PackBits right = truth == 1.0;
    Pack loss;
    if (kLogit)
      loss = log_loss_of_margin<Pack>(right ? score : -score);
    else
      loss = log_loss_of_probability<Pack>(score, right);
    const Pack zero = {};
    loss = loss > plan.lowest ? loss : zero + plan.lowest;
    loss = loss < plan.highest ? loss : zero + plan.highest;
    memcpy(block.losses + i, &loss, sizeof loss);
  }
}
VALOR_CLONES void log_probabilities(const LossPlan& plan, int64_t count, Block& block) {
  take_logarithms<false>(plan, count, block);
}
VALOR_CLONES void log_margins(const LossPlan& plan, int64_t count, Block& block) {
  take_logarithms<true>(plan, count, block);
}

// Adds losses that have weight. Returns whether one is finite and too large to be rounded here.
VALOR_CLONES bool add_rounded(int64_t count, const Block& block, Slice& slice) {
  Pack sums[kLossSums];
  memcpy(sums, slice.sums, sizeof sums);
  PackBits large = {};
  const Pack zero = {};
  for (int64_t i = 0; i < count; i += kPackLanes) {
    Pack loss, weight;
    memcpy(&loss, block.losses + i, sizeof loss);
    memcpy(&weight, block.weight + i, sizeof weight);
    const PackBits held = weight > 0.0, infinite = held & (loss == kInfinity);
    const PackBits rounds = held & (loss < kMostRounded);
    large |= held & ~infinite & ~rounds;
    const Pack finite = rounds ? loss : zero, coarse = (finite + kCoarse) - kCoarse;
    sums[0] += coarse * weight;
    sums[1] += (((finite - coarse) + kFine) - kFine) * weight;
    sums[2] += weight;
    sums[3] += infinite ? zero + 1.0 : zero;
  }
  memcpy(slice.sums, sums, sizeof sums);
  int64_t any = 0;
  for (int lane = 0; lane < kPackLanes; ++lane) any |= large[lane];
  return any != 0;
}

void add_large(int64_t count, const Block& block, Slice& slice) {
  for (int64_t i = 0; i < count; ++i) {
    const double loss = block.losses[i];
    if (!(block.weight[i] > 0.0) || loss < kMostRounded || loss == kInfinity) continue;
    const double coarse = loss < 0x1p29 ? std::nearbyint(loss * 0x1p24) * 0x1p-24 : loss;
    slice.sums[0][i % kPackLanes] += coarse * block.weight[i];
    slice.sums[1][i % kPackLanes] += std::nearbyint((loss - coarse) * 0x1p48) * 0x1p-48 * block.weight[i];
  }
}

// Adds a probability of a class to the bin whose edges it lies between.
VALOR_INLINE void add_to_bin(const LossPlan& plan, double p, bool right, double weight, double* bins) {
  int64_t bin = static_cast<int64_t>(p * static_cast<double>(plan.bins));
  while (p < plan.edges[bin]) --bin;
  while (bin < plan.bins && p >= plan.edges[bin + 1]) ++bin;
  double* const cell = bins + 3 * bin;
  cell[0] += weight;
  cell[1] += ((p + kCoarse) - kCoarse) * weight;
  cell[2] += right ? weight : 0.0;
}

class Losses {
 public:
  Losses(const LossPlan& plan, const LossCall& call, bool logits)
      : plan_(plan), call_(call), target_(plan.batch.target_at(call.target())), logits_(logits) {}

  // Sums of rows [begin, end); false where scores are logits that were not taken for them.
  bool add(int64_t begin, int64_t end, bool keeps, Slice& slice) const {
    Block block;
    std::vector<double> row(target_.per_element ? 0 : 2 * target_.classes);
    slice.bins.assign(3 * plan_.cells(), 0.0);
    for (int64_t start = begin; start < end; start += kBlock) {
      const int64_t count = std::min<int64_t>(kBlock, end - start);
      const int64_t padded = (count + kPackLanes - 1) / kPackLanes * kPackLanes;
      for (int64_t i = 0; i < count; ++i) block.weight[i] = plan_.weight ? plan_.weight[start + i] : 1.0;
      for (int64_t i = count; i < padded; ++i)
        block.weight[i] = 0.0, block.scores[i] = block.truth[i] = block.losses[i] = 1.0;
      read_labels(target_, start, count, block.labels);
      const bool good = target_.per_element ? add_elements(start, count, padded, block, slice)
                                            : add_rows(start, count, padded, row.data(), block, slice);
      if (!good) return false;
      if (add_rounded(padded, block, slice)) add_large(count, block, slice);
      if (keeps) keep(start, count, block);
    }
    return true;
  }

 private:
  bool add_elements(int64_t start, int64_t count, int64_t padded, Block& block, Slice& slice) const {
    read_scores(call_.preds(), static_cast<FloatType>(plan_.batch.type), start, count, block.scores);
    const Found found = check_block(target_, count, block);
    if (found.bad) throw Refused();
    if (found.outside && !logits_) return false;
    slice.ignored += found.ignored;
    if (!plan_.squared) {
      logits_ ? log_margins(plan_, padded, block) : log_probabilities(plan_, padded, block);
      return true;
    }
    for (int64_t i = 0; logits_ && i < count; ++i) block.scores[i] = sigmoid(block.scores[i]);
    square_errors(padded, block);
    for (int64_t i = 0; i < count; ++i)
      if (block.weight[i] > 0.0)
        add_to_bin(plan_, block.scores[i], block.truth[i] == 1.0, block.weight[i], slice.bins.data());
    return true;
  }

  bool add_rows(int64_t start, int64_t count, int64_t padded, double* row, Block& block, Slice& slice) const {
    const int64_t classes = target_.classes;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t label = block.labels[i];
      block.losses[i] = block.scores[i] = block.truth[i] = 1.0;
      if (target_.ignores(label)) {
        block.weight[i] = 0.0;
        ++slice.ignored;
        continue;
      }
      if (label < 0 || label >= classes) throw Refused();
      read_scores(call_.preds(), static_cast<FloatType>(plan_.batch.type), (start + i) * classes, classes,
                  row);
      if (!good_row(row)) return false;
      if (plan_.squared)
        block.losses[i] = squared_error(row, label, block.weight[i], slice.bins.data());
      else if (logits_)
        block.losses[i] = log_loss(row, label);
      else
        block.scores[i] = row[label];
    }
    if (!plan_.squared && !logits_) log_probabilities(plan_, padded, block);
    return true;
  }

  // False where scores are logits that were not taken for them.
  bool good_row(const double* row) const {
    double low = row[0], high = row[0];
    bool numbers = true;
    for (int64_t c = 0; c < target_.classes; ++c) {
      numbers &= row[c] == row[c];
      low = std::min(low, row[c]);
      high = std::max(high, row[c]);
    }
    if (!numbers || (logits_ && (low == -kInfinity || high == kInfinity))) throw Refused();
    return logits_ || (low >= 0.0 && high <= 1.0);
  }

  double squared_error(double* row, int64_t label, double weight, double* bins) const {
    const int64_t classes = target_.classes;
    const double* probabilities = row;
    if (logits_) softmax(row, classes, row + classes), probabilities = row + classes;
    double sum = 0.0;
    for (int64_t c = 0; c < classes; ++c) {
      const double error = probabilities[c] - (c == label ? 1.0 : 0.0);
      sum += error * error;
      if (weight > 0.0)
        add_to_bin(plan_, probabilities[c], c == label, weight, bins + 3 * c * (plan_.bins + 1));
    }
    return sum;
  }

  double log_loss(const double* row, int64_t label) const {
    const double highest = *std::max_element(row, row + target_.classes);
    double sum = 0.0;
    for (int64_t c = 0; c < target_.classes; ++c) sum += exp_of_negative(row[c] - highest);
    const double loss = (highest - row[label]) + log_of_any(sum);
    return std::min(std::max(loss, plan_.lowest), plan_.highest);
  }

  void keep(int64_t start, int64_t count, const Block& block) const {
    double* const losses = call_.row<double>(0) + start;
    int64_t* const labels = call_.row<int64_t>(1) + start;
    for (int64_t i = 0; i < count; ++i) {
      losses[i] = target_.ignores(block.labels[i]) ? kNan : block.losses[i] + 0.0;  // no -0.0
      labels[i] = block.labels[i];
    }
  }

  const LossPlan& plan_;
  const LossCall& call_;
  const Target target_;
  const bool logits_;
};

// Sums of all slices; false where scores are logits that were not taken for them.
bool add_slices(const LossPlan& plan, const LossCall& call, bool logits, bool keeps,
                std::vector<Slice>& slices) {
  const Losses losses(plan, call, logits);
  const int64_t rows = plan.batch.rows, count = static_cast<int64_t>(slices.size());
  std::atomic<bool> good{true};
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end && good; ++s) {
      slices[s] = Slice();
      if (!losses.add(rows * s / count, rows * (s + 1) / count, keeps, slices[s])) good = false;
    }
  };
  parallel_for(count, 1, static_cast<int>(plan.threads), body);
  return good;
}

void add_row_losses(const LossPlan& plan, const LossCall& call, bool keeps) {
  const int64_t cells = plan.cells(), elements = plan.batch.rows * plan.batch.target.classes;
  const int64_t most = std::min(elements / kLeastElements, elements / (3 * cells + 1));
  std::vector<Slice> slices(std::max<int64_t>(1, std::min(kMostSlices, most)));
  SmallBatch batch = plan.batch;
  bool logits = batch.activation == kAlways;
  if (!add_slices(plan, call, logits, keeps, slices)) {
    if (batch.activation != kWhenOutside) throw Refused();
    logits = true;
    add_slices(plan, call, logits, keeps, slices);
  }
  int64_t ignored = 0;
  double sums[kLossSums] = {};
  std::vector<double> bins(3 * cells);
  for (const Slice& slice : slices) {
    ignored += slice.ignored;
    for (int64_t i = 0; i < kLossSums; ++i)
      for (double sum : slice.sums[i]) sums[i] += sum;
    for (int64_t i = 0; i < 3 * cells; ++i) bins[i] += slice.bins[i];
  }
  for (int64_t i = 0; i < kLossSums; ++i) call.now<double>(0)[i] = call.old<double>(0)[i] + sums[i];
  for (int64_t i = 0; i < 3 * cells; ++i)
    call.now<double>(2)[i] = call.old<double>(2)[i] + bins[i % cells * 3 + i / cells];
  if (logits && batch.activation == kWhenOutside) batch.activation = kLogits;
  const int64_t* const old = call.old<int64_t>(1);
  int64_t* const seen = call.now<int64_t>(1);
  seen[0] = old[0] + batch.rows;
  seen[1] = old[1] + ignored;
  add_marks(batch, ignored < batch.rows, old + 2, seen + 2);
}

}  // namespace
}  // namespace valor

// plan_words are a LossPlan and whether rows are kept; call_words the addresses of a LossCall.
VALOR_API int32_t valor_add_row_losses_cpu(const void* plan_words, const void* call_words) {
  return valor::guarded([&] {
    const auto& plan = *static_cast<const valor::LossPlan*>(plan_words);
    const int64_t keeps = static_cast<const int64_t*>(plan_words)[sizeof plan / sizeof keeps];
    valor::add_row_losses(plan, {static_cast<void* const*>(call_words), plan.squared ? 3 : 2}, keeps);
  });
}
