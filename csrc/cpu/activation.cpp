// CPU driver of the activation of scores: rows are split over threads.
#include "../core/activation.h"

#include <algorithm>

#include "guard.h"
#include "pool.h"

namespace {

constexpr int64_t kLeastScores = 1 << 12;  // that are worth a thread

}  // namespace

// out[rows, classes]: softmax over the classes of scores[rows, classes], or else the sigmoid of each.
VALOR_API int32_t valor_activate_cpu(const double* scores, int64_t rows, int64_t classes, int64_t softmax,
                                     double* out, int64_t threads) {
  return valor::guarded([&] {
    const int64_t grain = std::max<int64_t>(1, kLeastScores / std::max<int64_t>(1, classes));
    auto body = [&](int64_t begin, int64_t end) {
      if (softmax)
        for (int64_t r = begin; r < end; ++r)
          valor::softmax(scores + r * classes, classes, out + r * classes);
      else
        for (int64_t i = begin * classes; i < end * classes; ++i) out[i] = valor::sigmoid(scores[i]);
    };
    valor::parallel_for(rows, grain, static_cast<int>(threads), body);
  });
}
