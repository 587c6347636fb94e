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

// Writes the names of the fields of Segment, Rule and Batch, in their order, as text of lines; `size` is the
// room.
VALOR_API int32_t valor_match_layout_cpu(uint8_t* text, int64_t size) {
  return valor::guarded([&] {
    using namespace valor;
#define VALOR_NAME(name) #name " "
    const char layout[] = VALOR_SEGMENT_FIELDS(VALOR_NAME) "\n" VALOR_RULE_FIELDS(
        VALOR_NAME) "\n" VALOR_BATCH_FIELDS(VALOR_NAME) "\n";
#undef VALOR_NAME
    static_assert(sizeof(Segment) == 8 * 21 && sizeof(Rule) == 8 * 17 && sizeof(Batch) == 8 * 38,
                  "int64 fields only");
    memcpy(text, layout, std::min<int64_t>(size, sizeof layout));
  });
}
