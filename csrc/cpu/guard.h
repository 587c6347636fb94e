// The way out of the library: every function of the C interface does its work inside guarded(), so that no
// exception reaches the caller, whose language knows none.
#pragma once
#include <stdint.h>

#include <new>
#include <stdexcept>

namespace valor {

// What a function of the C interface returns; valor_gpu/native.py raises by it.
enum Status : int32_t { kDone = 0, kOutOfMemory = -1, kFailed = -2, kRefused = 1, kActivate = 2 };

// Thrown by the update of a small batch that holds a bad value, which the checked path will name: kRefused.
struct Refused {};
// Thrown where its scores have to go through their activation first: kActivate.
struct Activate {};

template <class Body>
int32_t guarded(Body&& body) noexcept {
  try {
    body();
    return kDone;
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  } catch (const std::length_error&) {  // more than a vector can ever hold
    return kOutOfMemory;
  } catch (const Refused&) {
    return kRefused;
  } catch (const Activate&) {
    return kActivate;
  } catch (...) {
    return kFailed;
  }
}

}  // namespace valor
