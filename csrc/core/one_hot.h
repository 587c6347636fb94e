// One-hot maps, alone or beside a map of labels, as counts of classes: what a task holds.
#pragma once
#include "pixel_counts.h"

namespace valor {

// The fields are 64-bit words: Python packs them. A side is one-hot, with a value for each pixel and channel,
// or a map of labels. Values of a one-hot side other than 0 and 1 are errors and count as 0.
struct OneHotTask {
  PixelTask pixels;  // its channel_stride is that of one-hot predictions; pairs is 0
  int64_t target_channel_stride;
  int64_t preds_one_hot, target_one_hot;

  VALOR_HD const PixelMap& map(bool of_target) const { return of_target ? pixels.target : pixels.preds; }
  VALOR_HD bool one_hot(bool of_target) const { return of_target ? target_one_hot : preds_one_hot; }
  VALOR_HD int64_t channel_stride(bool of_target) const {
    return of_target ? target_channel_stride : pixels.channel_stride;
  }
  // The channel of the target that leaves out its pixels; -1: none does.
  VALOR_HD int64_t ignored_channel() const {
    const bool channel = target_one_hot && pixels.has_ignore;
    return channel && pixels.ignore >= 0 && pixels.ignore < pixels.classes ? pixels.ignore : -1;
  }
  VALOR_HD static ValueError kind(bool of_target) { return of_target ? kTarget : kPrediction; }
};
static_assert(sizeof(OneHotTask) == 184, "valor_gpu/ops/one_hot/op.py packs 23 words");

}  // namespace valor
