// Tensors of torch as Python holds them, read by the function that torch exports for it (DLPack 1,
// DLPackExchangeAPI; https://dmlc.github.io/dlpack). Everything here runs with the GIL held.
#pragma once
#include "../core/load.h"
#include "host_objects.h"

namespace valor {

// DLDataTypeCode.
enum ElementKind : uint8_t { kSigned = 0, kUnsigned = 1, kFloating = 2, kBrain = 4, kTruth = 6 };

// DLTensor of DLPack 1.
struct TensorView {
  char* data;
  int32_t place, device, dimensions;  // place: DLDeviceType
  uint8_t kind, bits;                 // of the dtype
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;

  int64_t elements() const {
    int64_t found = 1;
    for (int d = 0; d < dimensions; ++d) found *= shape[d];
    return found;
  }
  // Whether elements lie as in C, the last dimension fastest; a dimension of one element may have any stride.
  bool contiguous() const {
    if (!strides) return true;
    int64_t step = 1;
    for (int d = dimensions - 1; d >= 0; step *= shape[d--])
      if (shape[d] != 1 && strides[d] != step) return false;
    return true;
  }
  int64_t address() const { return reinterpret_cast<int64_t>(data) + static_cast<int64_t>(offset); }
  bool is(uint8_t of_kind, uint8_t of_bits) const { return kind == of_kind && bits == of_bits; }
  FloatType float_type() const {
    if (is(kFloating, 16)) return kFloat16;
    if (is(kBrain, 16)) return kBFloat16;
    if (is(kFloating, 32)) return kFloat32;
    require(is(kFloating, 64));
    return kFloat64;
  }
  IntType int_type() const {
    if (is(kSigned, 8)) return kInt8;
    if (is(kUnsigned, 8)) return kUInt8;
    if (is(kSigned, 16)) return kInt16;
    if (is(kSigned, 32)) return kInt32;
    if (is(kTruth, 8)) return kBool;
    require(is(kSigned, 64));
    return kInt64;
  }
};

// Reads tensors whose numbers a kernel on one device can take as they lie.
class TensorReader {
 public:
  // Takes the next objects: the type of tensors, Tensor.is_neg, False, the address of
  // dltensor_from_py_object_no_sync, DLDeviceType and index of the device.
  explicit TensorReader(const Items& settings)
      : type_(settings[0]),
        is_neg_(settings[1]),
        no_(settings[2]),
        read_(reinterpret_cast<Read>(integer_of(settings[3]))),
        place_(integer_of(settings[4])),
        device_(integer_of(settings[5])) {}
  static constexpr int kSettings = 6;

  TensorView operator()(Object* tensor) const {
    require(is(tensor, type_));
    TensorView view;
    require(read_(tensor, &view) == 0);
    require(view.place == place_ && view.device == device_ && view.lanes == 1);
    const int64_t elements = view.elements();
    require(elements == 0 || (view.data && view.contiguous()));
    if (view.kind == kFloating || view.kind == kBrain) require_sign(tensor);
    return view;
  }

 private:
  // A view may negate what it shows: the imaginary part of a conjugate, whose numbers are floating.
  void require_sign(Object* tensor) const {
    const Held negative(host.call(is_neg_, tensor));  // a mode of torch may raise, as at Ctrl-C
    require(negative.get() == no_);
  }

  using Read = int (*)(Object*, TensorView*);
  Object *type_, *is_neg_, *no_;
  Read read_;
  int64_t place_, device_;
};

}  // namespace valor
