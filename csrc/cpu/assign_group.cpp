// CPU driver of assignment by the rule of Open Images.
#include "assign_images.h"

namespace valor {

int64_t assign_images_group(const Batch& batch, const Rule& rule, const Output& out, int64_t threads) {
  return assign_by_rule<kGroupOf>(batch, rule, out, threads);
}

}  // namespace valor
