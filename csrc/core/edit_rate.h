// Translation edit rate on the host: edits of words where moving a run of words costs one edit.
// The search for moves, its limits and its order of preference are those of Tercom as sacreBLEU runs it.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "text.h"

namespace valor {

class EditRate {
 public:
  // Least edits found from the prediction to the reference, moves included.
  int64_t edits(const Words& prediction, const Words& reference) {
    if (reference.size == 0) return prediction.size;
    reference_ = reference;
    words_.assign(prediction.ids, prediction.ids + prediction.size);
    ratio_ = words_.empty() ? 1.0 : static_cast<double>(reference.size) / static_cast<double>(words_.size());
    beam_ = ratio_ / 2 > kBeam ? static_cast<int64_t>(std::ceil(ratio_ / 2 + kBeam)) : kBeam;
    tried_ = 0;
    for (int64_t moves = 0;; ++moves) {
      const int64_t distance = align();
      const Move best = best_move(distance);
      if (tried_ >= kMostTried || best.gain <= 0) return moves + distance;
      move(best.start, best.length, best.target);
      words_.swap(moved_);
    }
  }

 private:
  static constexpr int64_t kBeam = 25, kLongestMove = 10, kFarthestMove = 50, kMostTried = 1000;
  static constexpr int32_t kFar = 1 << 30;  // above every distance: a cell outside the beam
  enum Op : uint8_t { kNone, kPair, kDelete, kInsert };

  // A run of `length` words from `start` on that goes before word `target`.
  struct Move {
    int64_t gain, length, start, target;
    bool operator<(const Move& other) const {
      if (gain != other.gain) return gain < other.gain;
      if (length != other.length) return length < other.length;
      return start != other.start ? start > other.start : target > other.target;
    }
  };
  // Cells of one row of the table that the beam reaches: those of reference words first to last - 1.
  struct Row {
    int64_t first, last, at;
  };

  int64_t size() const { return static_cast<int64_t>(words_.size()); }

  Row row(int64_t i) const {
    const int64_t width = reference_.size + 1;
    if (i == 0) return {0, width, 0};
    const int64_t middle = static_cast<int64_t>(std::floor(static_cast<double>(i) * ratio_));
    return {std::max<int64_t>(0, middle - beam_), i == size() ? width : std::min(width, middle + beam_), 0};
  }

  // One row of costs from the row above; each holds cells first to last - 1. `ops` may be null.
  void fill(int32_t word, const Row& above, const int32_t* before, const Row& here, int32_t* now,
            uint8_t* ops) const {
    const auto cost = [&](int64_t j) {
      return j >= above.first && j < above.last ? before[j - above.first] : kFar;
    };
    int32_t left = kFar;
    for (int64_t j = here.first; j < here.last; ++j) {
      int32_t best = kFar;
      uint8_t op = kNone;
      const auto offer = [&](int32_t value, uint8_t name) {
        if (value < best) best = value, op = name;
      };
      if (j > 0) offer(cost(j - 1) + (word != reference_.ids[j - 1]), kPair);
      offer(cost(j) + 1, kDelete);
      if (j > 0) offer(left + 1, kInsert);
      now[j - here.first] = left = best;
      if (ops) ops[j - here.first] = op;
    }
  }

  // The table of the words, where each reference word is aligned, and sums of errors; the distance.
  int64_t align() {
    rows_.resize(size() + 1);
    int64_t cells = 0;
    for (int64_t i = 0; i <= size(); ++i) {
      rows_[i] = row(i);
      rows_[i].at = cells;
      cells += rows_[i].last - rows_[i].first;
    }
    costs_.resize(cells);
    ops_.resize(cells);
    for (int64_t j = 0; j <= reference_.size; ++j) costs_[j] = static_cast<int32_t>(j), ops_[j] = kInsert;
    for (int64_t i = 1; i <= size(); ++i)
      fill(words_[i - 1], rows_[i - 1], costs_.data() + rows_[i - 1].at, rows_[i],
           costs_.data() + rows_[i].at, ops_.data() + rows_[i].at);
    trace();
    return costs_.back();
  }

  void trace() {
    aligned_.assign(reference_.size, -1);
    wrong_.assign(size() + 1, 0);
    wrong_reference_.assign(reference_.size + 1, 0);
    for (int64_t i = size(), j = reference_.size; i > 0 || j > 0;) {
      const uint8_t op = ops_[rows_[i].at + j - rows_[i].first];
      const bool pair = op == kPair, error = !pair || words_[i - 1] != reference_.ids[j - 1];
      if (op != kDelete) aligned_[j - 1] = i - 1, wrong_reference_[j] = error;
      if (op != kInsert) wrong_[i] = error;
      j -= op != kDelete;
      i -= op != kInsert;
    }
    for (size_t i = 1; i < wrong_.size(); ++i) wrong_[i] += wrong_[i - 1];
    for (size_t j = 1; j < wrong_reference_.size(); ++j) wrong_reference_[j] += wrong_reference_[j - 1];
  }

  Move best_move(int64_t distance) {
    Move best{0, 0, 0, 0};
    bool any = false;
    for (int64_t start = 0; start < size(); ++start) {
      const int64_t end = std::min(reference_.size, start + kFarthestMove + 1);
      for (int64_t from = std::max<int64_t>(0, start - kFarthestMove); from < end; ++from)
        for (int64_t length = 1;
             length <= kLongestMove && start + length <= size() && from + length <= reference_.size &&
             words_[start + length - 1] == reference_.ids[from + length - 1];
             ++length) {
          try_moves(start, from, length, distance, best, any);
          if (tried_ >= kMostTried) return best;
        }
    }
    return best;
  }

  // Moves words that stand wrong to where the equal words of the reference are aligned, which must be wrong
  // too.
  void try_moves(int64_t start, int64_t from, int64_t length, int64_t distance, Move& best, bool& any) {
    if (wrong_[start + length] == wrong_[start]) return;
    if (wrong_reference_[from + length] == wrong_reference_[from]) return;
    if (start <= aligned_[from] && aligned_[from] < start + length) return;
    int64_t last = -1;
    for (int64_t k = from - 1; k < from + length; ++k) {
      const int64_t target = k < 0 ? 0 : aligned_[k] + 1;
      if (target == last) continue;
      last = target;
      ++tried_;
      const Move found{distance - distance_after(start, length, target), length, start, target};
      if (!any || best < found) best = found;
      any = true;
    }
  }

  void move(int64_t start, int64_t length, int64_t target) {
    moved_ = words_;
    const auto at = moved_.begin();
    if (target < start) {
      std::rotate(at + target, at + start, at + start + length);
    } else {  // inside the run, the run goes on by as many words as `target` lies within it
      const int64_t end = target > start + length ? target : std::min(size(), target + length);
      std::rotate(at + start, at + start + length, at + end);
    }
  }

  int64_t distance_after(int64_t start, int64_t length, int64_t target) {
    move(start, length, target);
    int64_t i = std::min(start, target);
    while (i < size() && moved_[i] == words_[i]) ++i;  // rows of equal beginnings are known
    if (i == size()) return costs_.back();
    const int32_t* before = costs_.data() + rows_[i].at;
    for (auto* now = &first_; i < size(); ++i, now = now == &first_ ? &second_ : &first_) {
      now->resize(reference_.size + 1);
      fill(moved_[i], rows_[i], before, rows_[i + 1], now->data(), nullptr);
      before = now->data();
    }
    return before[reference_.size - rows_[size()].first];
  }

  Words reference_{};
  double ratio_ = 1;
  int64_t beam_ = kBeam, tried_ = 0;
  std::vector<int32_t> words_, moved_, costs_, first_, second_;
  std::vector<uint8_t> ops_;
  std::vector<Row> rows_;
  std::vector<int64_t> aligned_;  // word of the prediction beside or before each reference word, -1: none
  std::vector<int64_t> wrong_, wrong_reference_;  // errors among the first words
};

}  // namespace valor
