// Cosines of the tokens of pairs of texts: of every token the largest with a token of the other text.
// Definition: valor_gpu/ops/greedy_cosines/reference.py. Design: docs/design/038-bert-score.md.
#pragma once
#include <math.h>

#include "error_codes.h"

namespace valor {

constexpr int kDotLanes = 32;  // parts of a dot product: element d belongs to part d % kDotLanes

// Arguments of the op. Fields are 64-bit words, packed by valor_gpu/ops/greedy_cosines/op.py. Side 0 has the
// predictions, side 1 the references.
struct CosineTask {
  const float* vectors[2];    // [tokens, size]
  const int64_t* offsets[2];  // [pairs + 1] where the tokens of each pair begin
  float* best[2];             // [tokens]
  float* inverse[2];          // [tokens] 1 / length
  int64_t tokens[2];
  int64_t pairs, size;  // a multiple of kDotLanes

  VALOR_HD const float* vector(int side, int64_t token) const { return vectors[side] + token * size; }
};

// 1 / length of a vector from the sum of its squares; not finite where the vector has no direction.
VALOR_HD float inverse_length(float squares) { return 1.0f / sqrtf(squares); }

VALOR_HD bool has_direction(float squares) { return squares > 0x1p-120f && squares < 0x1p120f; }

VALOR_HD float cosine_of(float dot, float inverse_pred, float inverse_target) {
  const float cosine = dot * inverse_pred * inverse_target;
  return cosine > 1.0f ? 1.0f : cosine < -1.0f ? -1.0f : cosine;
}

}  // namespace valor
