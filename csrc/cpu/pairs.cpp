// What all geometries do with the pairs that csrc/cpu/pairs.h has listed.
#include "pairs.h"

#include "guard.h"

// Copies the pairs of a list, unless null, and frees the list.
VALOR_API int32_t valor_collect_pairs_cpu(int64_t list, int32_t* ground_truths, double* similarities) {
  return valor::guarded([&] {
    const std::unique_ptr<valor::PairList> pairs(reinterpret_cast<valor::PairList*>(list));
    for (valor::PairPart& part : *pairs) {
      if (!ground_truths) return;
      ground_truths = std::copy(part.ground_truths.begin(), part.ground_truths.end(), ground_truths);
      similarities = std::copy(part.similarities.begin(), part.similarities.end(), similarities);
      part = {};
    }
  });
}
