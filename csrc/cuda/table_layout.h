// Tables of several types in one allocation.
#pragma once
#include <stdint.h>

namespace valor {

// Lays tables out one after another, each aligned to 8 bytes; from a null base it only measures.
class TableLayout {
 public:
  explicit TableLayout(void* base) : base_(static_cast<unsigned char*>(base)) {}
  template <class T>
  void place(T*& table, int64_t count) {
    table = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 7) / 8 * 8;
  }
  int64_t bytes() const { return bytes_; }

 private:
  unsigned char* base_;
  int64_t bytes_ = 0;
};

}  // namespace valor
