// Sets tables of 8-byte words to 0 by one launch, which may copy one word as well.
#pragma once
#include <stdint.h>

namespace valor {

struct ClearTask {
  static constexpr int kTables = 6;
  int64_t* tables[kTables];
  int64_t counts[kTables];
  const int64_t* source = nullptr;  // null: no word is copied
  int64_t* target = nullptr;        // in none of the tables
};

int32_t clear(const ClearTask& task, void* stream);

}  // namespace valor
