// Scores of the ranked documents of a query. Definition: valor_gpu/ops/queries/reference.py. Numbers that are
// no whole numbers are added by rank, so that one lane and many have the same bits.
#pragma once
#include "load.h"
#include "query_tasks.h"
#include "ranks.h"
#include "sort.h"

namespace valor {

// MEASURES of valor_gpu/ops/queries/types.py.
enum Measure : int64_t {
  kPrecision = 0,
  kRecall = 1,
  kHitRate = 2,
  kAveragePrecision = 3,
  kTrecAveragePrecision = 4,
  kReciprocalRank = 5,
  kFallOut = 6,
  kRPrecision = 7,
  kNdcg = 8,
  kNdcgExp = 9,
  kDcg = 10,
  kDcgExp = 11,
  kErr = 12,
  kAuroc = 13,
  kJudged = 14,
  kHoles = 15,
  kBpref = 16,
  kRbp = 17,
};

// Why a query has no score; likewise.
enum QueryStatus : int8_t {
  kScored = 0,
  kNoDocuments = 1,
  kNoRelevant = 2,
  kNoIrrelevant = 3,
  kOneClass = 4,
  kBadGrade = 5,
};

constexpr int64_t kFloatTarget = 16;  // a type of targets from here on is a FloatType
constexpr double kLargestGrade = 1023.0;

VALOR_HD double load_grade(const void* target, int64_t row, int64_t type) {
  if (type < kFloatTarget) return static_cast<double>(load_int(target, row, static_cast<IntType>(type)));
  return load_float64(target, row, static_cast<FloatType>(type - kFloatTarget));
}

VALOR_HD bool discounted(int64_t measure) { return measure >= kNdcg && measure <= kDcgExp; }
VALOR_HD bool normalised(int64_t measure) { return measure == kNdcg || measure == kNdcgExp; }
VALOR_HD bool exponential(int64_t measure) {
  return measure == kNdcgExp || measure == kDcgExp || measure == kErr;
}
// Whether documents of equal score count alike.
VALOR_HD bool ties_count(int64_t measure) { return discounted(measure) || measure == kAuroc; }

// The group of one lane, which can also be asked for the value of a lane.
struct OneLane : Serial {
  template <class T>
  VALOR_HD T from(T value, int32_t) const {
    return value;
  }
};

// The place of the lowest, and of the highest, bit of a word that is not 0.
VALOR_HD int lowest_bit(uint32_t word) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(word)) - 1;
#else
  return __builtin_ctz(word);
#endif
}
VALOR_HD int highest_bit(uint32_t word) {
#if defined(__CUDA_ARCH__)
  return 31 - __clz(static_cast<int>(word));
#else
  return 31 - __builtin_clz(word);
#endif
}

// Score of one query, by the lanes of a group: Warp or OneLane. Docs has size(), and by rank grade(i),
// score(i) and best(i), the grades in descending order.
template <class Group, class Docs>
class QueryScore {
 public:
  VALOR_HD QueryScore(const Group& group, const Docs& docs, const QueryTask& task)
      : group_(group), docs_(docs), task_(task), size_(docs.size()), limit_(size_) {
    if (task.above == task.above)
      limit_ = partition_point(size_, [&](int64_t i) { return !(docs_.score(i) <= task_.above); });
    if (task.top_k > 0 && task.top_k < limit_) limit_ = task.top_k;
    count();
  }

  VALOR_HD QueryStatus status() const {
    const int64_t measure = task_.measure;
    if (size_ == 0 || (measure == kJudged && limit_ == 0)) return kNoDocuments;
    if (exponential(measure) && bad_ > 0) return kBadGrade;
    const bool gains = measure == kDcg || measure == kDcgExp || measure == kErr || measure == kRbp;
    const bool any = gains || measure == kJudged || measure == kHoles || measure == kFallOut;
    if (relevant_ == 0 && !any) return kNoRelevant;
    if (relevant_ == size_ && (measure == kAuroc || measure == kFallOut)) return kNoIrrelevant;
    if (measure == kAuroc && (hits_ == 0 || hits_ == limit_)) return kOneClass;
    return kScored;
  }

  // Of a query that has one.
  VALOR_HD double score() const {
    switch (task_.measure) {
      case kPrecision:
        return ratio(hits_, divisor());
      case kRecall:
        return ratio(hits_, relevant_);
      case kHitRate:
        return hits_ > 0 ? 1.0 : 0.0;
      case kAveragePrecision:
        return hits_ > 0 ? precisions() / static_cast<double>(hits_) : 0.0;
      case kTrecAveragePrecision:
        return precisions() / static_cast<double>(relevant_);
      case kReciprocalRank:
        return reciprocal_rank();
      case kFallOut:
        return ratio(limit_ - hits_, size_ - relevant_);
      case kRPrecision:
        return r_precision();
      case kNdcg:
      case kNdcgExp:
        return ndcg();
      case kDcg:
      case kDcgExp:
        return dcg();
      case kErr:
        return err();
      case kAuroc:
        return auroc();
      case kJudged:
        return ratio(limit_ - holes_, limit_);
      case kHoles:
        return static_cast<double>(holes_);
      case kBpref:
        return bpref();
      default:
        return rbp();
    }
  }

 private:
  VALOR_HD static double ratio(int64_t count, int64_t of) {
    return static_cast<double>(count) / static_cast<double>(of);
  }

  VALOR_HD static bool is_relevant(double grade) { return grade > 0.0; }

  VALOR_HD int64_t divisor() const {
    const int64_t k = task_.top_k;
    return k == 0 || (task_.adaptive_k && k > size_) ? size_ : k;
  }

  VALOR_HD bool bad(double grade) const {
    const double largest = task_.measure == kErr ? task_.parameter : kLargestGrade;
    return is_relevant(grade) &&
           (grade > largest || grade != static_cast<double>(static_cast<int64_t>(grade)));
  }

  VALOR_HD void count() {
    uint64_t relevant = 0, hits = 0, irrelevant = 0, holes = 0, bad_grades = 0;
    const bool whole = exponential(task_.measure);
    for (int64_t i = group_.lane(); i < size_; i += group_.width()) {
      const double grade = docs_.grade(i);
      relevant += is_relevant(grade);
      irrelevant += grade == 0.0;
      if (i < limit_) hits += is_relevant(grade), holes += grade < 0.0;
      if (whole) bad_grades += bad(grade);
    }
    relevant_ = static_cast<int64_t>(group_.sum(relevant)), hits_ = static_cast<int64_t>(group_.sum(hits));
    irrelevant_ = static_cast<int64_t>(group_.sum(irrelevant));
    holes_ = static_cast<int64_t>(group_.sum(holes)), bad_ = static_cast<int64_t>(group_.sum(bad_grades));
  }

  VALOR_HD double gain(double grade) const {
    if (!is_relevant(grade)) return 0.0;
    if (!exponential(task_.measure)) return grade;
    return double_of((static_cast<uint64_t>(grade) + 1023) << 52) - 1.0;  // 2^grade - 1
  }

  VALOR_HD uint32_t lanes_before() const { return (1u << group_.lane()) - 1; }

  // Sum by rank of term(i, whether i is one of `count` documents), which every lane calls.
  template <class Term>
  VALOR_HD double add_by_rank(int64_t count, const Term& term) const {
    double total = 0.0;
    for (int64_t base = 0; base < count; base += group_.width()) {
      const int64_t i = base + group_.lane();
      const double value = term(i, i < count);
      for (uint32_t left = group_.ballot(value != 0.0); left != 0; left &= left - 1)
        total += group_.from(value, lowest_bit(left));
    }
    return total;
  }

  // Documents above this lane's that are `chosen`; `found`: those of earlier turns, then of this one too.
  VALOR_HD int64_t count_above(bool chosen, int64_t& found) const {
    const uint32_t lanes = group_.ballot(chosen);
    const int64_t above = found + count_bits(lanes & lanes_before());
    found += count_bits(lanes);
    return above;
  }

  VALOR_HD double precisions() const {
    int64_t found = 0;
    return add_by_rank(limit_, [&](int64_t i, bool inside) {
      const bool relevant = inside && is_relevant(docs_.grade(i));
      const int64_t above = count_above(relevant, found);
      return relevant ? ratio(above + 1, i + 1) : 0.0;
    });
  }

  VALOR_HD double reciprocal_rank() const {
    for (int64_t base = 0; base < limit_; base += group_.width()) {
      const int64_t i = base + group_.lane();
      const uint32_t lanes = group_.ballot(i < limit_ && is_relevant(docs_.grade(i)));
      if (lanes != 0) return 1.0 / static_cast<double>(base + lowest_bit(lanes) + 1);
    }
    return 0.0;
  }

  VALOR_HD double r_precision() const {
    const int64_t end = relevant_ < limit_ ? relevant_ : limit_;
    uint64_t hits = 0;
    for (int64_t i = group_.lane(); i < end; i += group_.width()) hits += is_relevant(docs_.grade(i));
    return ratio(static_cast<int64_t>(group_.sum(hits)), relevant_);
  }

  VALOR_HD bool begins(int64_t i) const { return i == 0 || docs_.score(i - 1) != docs_.score(i); }

  // The mean gain of the documents that tie with the first of them, at rank i.
  VALOR_HD double mean_gain(int64_t i) const {
    double sum = gain(docs_.grade(i));
    int64_t end = i + 1;
    for (; end < size_ && docs_.score(end) == docs_.score(i); ++end) sum += gain(docs_.grade(end));
    return end == i + 1 ? sum : sum / static_cast<double>(end - i);
  }

  VALOR_HD double dcg() const {
    double carry = 0.0;  // of the last document before
    return add_by_rank(limit_, [&](int64_t i, bool inside) {
      const bool first = inside && begins(i);
      const double own = first ? mean_gain(i) : 0.0;
      const uint32_t firsts = group_.ballot(first);
      const uint32_t before = firsts & (lanes_before() | 1u << group_.lane());
      const double theirs = group_.from(own, before != 0 ? highest_bit(before) : 0);
      const double mean = before != 0 ? theirs : carry;
      carry = group_.from(mean, group_.width() - 1);
      return inside ? mean * task_.weights[i] : 0.0;
    });
  }

  VALOR_HD double ndcg() const {
    // Grades from `relevant_` on are 0.
    const int64_t end = task_.top_k > 0 && task_.top_k < relevant_ ? task_.top_k : relevant_;
    const double ideal = add_by_rank(
        end, [&](int64_t i, bool inside) { return inside ? gain(docs_.best(i)) * task_.weights[i] : 0.0; });
    const double found = dcg() / ideal;
    return found > 1.0 ? 1.0 : found;  // rounding of means over ties can pass it
  }

  VALOR_HD double err() const {
    const double all = double_of((static_cast<uint64_t>(task_.parameter) + 1023) << 52);
    double total = 0.0, reached = 1.0;
    for (int64_t base = 0; base < limit_; base += group_.width()) {
      const int64_t i = base + group_.lane();
      const double stop = i < limit_ ? gain(docs_.grade(i)) / all : 0.0;
      for (uint32_t left = group_.ballot(stop != 0.0); left != 0; left &= left - 1) {
        const int place = lowest_bit(left);
        const double chance = group_.from(stop, place);
        total += reached * chance / static_cast<double>(base + place + 1);
        reached *= 1.0 - chance;
      }
    }
    return total;
  }

  VALOR_HD double rbp() const {
    const double sum = add_by_rank(limit_, [&](int64_t i, bool inside) {
      return inside && is_relevant(docs_.grade(i)) ? task_.weights[i] : 0.0;
    });
    return sum * (1.0 - task_.parameter);
  }

  VALOR_HD double bpref() const {
    int64_t found = 0;
    const int64_t most = relevant_ < irrelevant_ ? relevant_ : irrelevant_;
    const double sum = add_by_rank(limit_, [&](int64_t i, bool inside) {
      const double grade = inside ? docs_.grade(i) : -1.0;
      int64_t above = count_above(grade == 0.0, found);
      if (!is_relevant(grade)) return 0.0;
      above = above < relevant_ ? above : relevant_;
      return above == 0 ? 1.0 : 1.0 - ratio(above, most);
    });
    return sum / static_cast<double>(relevant_);
  }

  // Twice the area under the steps from group to group of equal scores, in documents: whole numbers but for
  // the step in which the largest false positive rate lies.
  VALOR_HD double auroc() const {
    const int64_t negatives = limit_ - hits_;
    const double end = static_cast<double>(negatives) * task_.parameter;
    int64_t found = 0;
    uint64_t area = 0;
    double part = 0.0;
    for (int64_t base = 0; base < limit_; base += group_.width()) {
      const int64_t i = base + group_.lane();
      const bool inside = i < limit_;
      const int64_t tp = count_above(inside && is_relevant(docs_.grade(i)), found);
      if (!inside || !begins(i)) continue;
      int64_t more_tp = 0, last = i;
      for (; last < limit_ && docs_.score(last) == docs_.score(i); ++last)
        more_tp += is_relevant(docs_.grade(last));
      const int64_t fp = i - tp, more_fp = last - i - more_tp;
      const double width = end - static_cast<double>(fp);
      if (static_cast<double>(fp + more_fp) <= end) {
        area += static_cast<uint64_t>(more_fp) * static_cast<uint64_t>(2 * tp + more_tp);
      } else if (width >= 0.0) {
        const double height =
            static_cast<double>(tp) + static_cast<double>(more_tp) * width / static_cast<double>(more_fp);
        part = width * (static_cast<double>(tp) + height);
      }
    }
    const double twice = static_cast<double>(group_.sum(area)) + group_.max(part);
    return standardised(twice / static_cast<double>(2 * hits_ * negatives));
  }

  // McClish: 1 for the best part of an area, 0.5 for one by chance.
  VALOR_HD double standardised(double area) const {
    const double most = task_.parameter;
    if (most == 1.0) return area;
    const double least = 0.5 * most * most;
    return 0.5 * (1.0 + (area - least) / (most - least));
  }

  const Group& group_;
  const Docs& docs_;
  const QueryTask& task_;
  const int64_t size_;
  int64_t limit_;  // documents that count: retrieved and within top_k
  int64_t relevant_ = 0, hits_ = 0, irrelevant_ = 0, holes_ = 0, bad_ = 0;
};

// Writes score and status of query q, on one lane.
template <class Group, class Docs>
VALOR_HD void write_query_score(const Group& group, const Docs& docs, const QueryTask& task, int64_t q) {
  const QueryScore<Group, Docs> found(group, docs, task);
  const QueryStatus status = found.status();
  const double score = status == kScored ? found.score() : not_a_number();
  if (group.lane() == 0) task.scores[q] = score, task.status[q] = status;
}

}  // namespace valor
