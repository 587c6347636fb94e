// CPU driver of assignment by the rule of COCO, and what the library exports.
#include "assign_images.h"
#include "guard.h"

namespace valor {

// csrc/cpu/assign_group.cpp
int64_t assign_images_group(const Batch& batch, const Rule& rule, const Output& out, int64_t threads);

namespace {

int64_t assign_images(const Batch& batch, const Rule& rule, const Output& out, int64_t threads) {
  if (rule.kind == kCoco) return assign_by_rule<kCoco>(batch, rule, out, threads);
  if (rule.kind == kGroupOf) return assign_images_group(batch, rule, out, threads);
  throw std::invalid_argument("unknown kind of rule");
}

}  // namespace
}  // namespace valor

// Assigns a batch: the words of Batch and of Rule with its numbers. `error` receives kNoError, or the first
// error as box_error packs it.
VALOR_API int32_t valor_assign_cpu(const void* batch_words, const void* rule_words, uint8_t* detections,
                                   uint8_t* ground_truths, int64_t* images, int32_t* matches, int64_t* error,
                                   int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Batch& batch = *static_cast<const Batch*>(batch_words);
    const Rule rule = Rule::of(rule_words);
    const Output out{detections, ground_truths, images, (rule.options & kWantMatches) ? matches : nullptr};
    *error = assign_images(batch, rule, out, threads);
  });
}
