// Extended edit distance on the host (Stanchev, Wang and Ney, 2019): edits of characters, jumps at blanks of
// the reference, and a cost for characters of the prediction that are visited twice or never.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <vector>

#include "text.h"

namespace valor {

// Prices of a jump, of a visit too many or too few, of a character to delete, and of a character to insert.
struct EditPrices {
  double jump, coverage, deletion, insertion;
};

class ExtendedEdits {
 public:
  // From 0 to 1; the ids of both texts are code points.
  double distance(const Words& prediction, const Words& reference, const EditPrices& prices) {
    const int64_t width = prediction.size + 1;
    costs_.assign(width, 1.0);
    costs_[0] = 0.0;
    visits_.assign(width, -1);
    for (int64_t j = 0; j < reference.size; ++j) {
      const int64_t nearest = read(prediction, reference.ids[j], prices);
      ++visits_[nearest];
      if (reference.ids[j] == ' ') {
        const double jump = prices.jump + costs_[nearest];
        for (double& cost : costs_) cost = std::min(cost, jump);
      }
    }
    int64_t uneven = 0;
    for (const int64_t visits : visits_) uneven += visits >= 0 ? visits : 1;
    const double coverage = prices.coverage * static_cast<double>(uneven);
    const double cost = costs_.back() + coverage, most = static_cast<double>(reference.size) + coverage;
    return most > 0 ? std::min(1.0, cost / most) : static_cast<double>(cost > 0);
  }

 private:
  // Costs after one more character of the reference; the first place with the least.
  int64_t read(const Words& prediction, int32_t character, const EditPrices& prices) {
    double diagonal = costs_[0], left = costs_[0] + 1.0, least = left;
    int64_t nearest = 0;
    costs_[0] = left;
    for (int64_t i = 1; i <= prediction.size; ++i) {
      const double pair = diagonal + (prediction.ids[i - 1] != character ? 1.0 : 0.0);
      diagonal = costs_[i];
      left = std::min(std::min(left + prices.deletion, pair), diagonal + prices.insertion);
      costs_[i] = left;
      if (left < least) least = left, nearest = i;
    }
    return nearest;
  }

  std::vector<double> costs_;
  std::vector<int64_t> visits_;
};

}  // namespace valor
