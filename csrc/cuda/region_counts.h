// Counts of pixels added to a state: what a call of csrc/cuda/add_regions.cu is given, and the functions of
// the files that count, which it calls.
#pragma once
#include "../core/one_hot.h"

namespace valor {

// What counts are added to, and where the sums go. The fields are 64-bit words: Python packs them. Any
// pointer but `tables` and `error` may be null: of maps, where those of the task are meant; of sums before,
// for zeros and no error; of others, where nobody asks.
struct RegionSums {
  const void *preds, *target;  // maps of the form that the task tells
  const int64_t* tables_before;
  int64_t* tables;             // [tables, 3 or C, C]
  const int64_t* seen_before;  // images, pixels, ignored pixels
  int64_t* seen;
  const int64_t* error_before;
  int64_t* error;
  int32_t* rows;  // the tables in 32 bits
  int64_t* ignored;
  int64_t images, pixels;  // of the batch
  void* stream;
};
static_assert(sizeof(RegionSums) == 104, "valor_gpu packs 13 words");

// Adds to tables [tables, 3 or C, C] and lowers `error`.
int32_t count_pixels(const PixelTask& task, int64_t* tables, int64_t* error, void* stream);

// Adds to tables [tables, 3, C] and to `ignored`, and lowers `error`.
int32_t count_one_hot(const OneHotTask& task, int64_t* tables, int64_t* ignored, int64_t* error,
                      void* stream);

}  // namespace valor
