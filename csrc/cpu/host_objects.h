// Objects of CPython, read and made by functions of its stable ABI. Their addresses come from Python when
// they are first needed (valor_gpu/native_objects.py), so that this library neither includes nor links Python
// and serves every version. Everything here runs with the GIL held.
#pragma once
#include <stdint.h>

#include <new>
#include <stdexcept>
#include <utility>

namespace valor {

// An object as every CPython with a GIL lays it out; native_objects.py looks whether this one does.
struct Object {
  intptr_t references;
  Object* type;
};

// Py_buffer of the stable ABI.
struct HostBuffer {
  void* data;
  Object* owner;
  intptr_t bytes, item;
  int readonly, dimensions;
  char* format;
  intptr_t *shape, *strides, *suboffsets;
  void* internal;
};
constexpr int kStridesAndFormat = 0x1c;  // PyBUF_RECORDS_RO

// In the order of FUNCTIONS and objects() in native_objects.py.
struct Host {
  Object* (*dict_get)(Object*, Object*);
  Object* (*dict_new)();
  int (*dict_set)(Object*, Object*, Object*);
  intptr_t (*list_size)(Object*);
  Object* (*list_get)(Object*, intptr_t);
  Object* (*list_new)(intptr_t);
  int (*list_set)(Object*, intptr_t, Object*);  // takes the item over
  intptr_t (*tuple_size)(Object*);
  Object* (*tuple_get)(Object*, intptr_t);
  int (*bytes_get)(Object*, char**, intptr_t*);
  Object* (*bytes_new)(const char*, intptr_t);
  const char* (*text_get)(Object*, intptr_t*);
  long long (*integer_get)(Object*);
  Object* (*integer_new)(long long);
  double (*real_get)(Object*);
  Object* (*memory_new)(const char*, intptr_t);
  char* (*memory_get)(Object*);
  int (*buffer_get)(Object*, HostBuffer*, int);
  void (*buffer_release)(HostBuffer*);
  Object* (*error)();
  void (*error_clear)();
  Object* (*error_memory)();
  Object* (*call)(Object*, Object*);  // with one argument
  void (*acquire)(Object*);
  void (*release)(Object*);
  Object *none, *dict, *list, *tuple, *bytes, *text, *integer, *flag, *real, *numpy_real;
  Object *size, *counts;  // keys of a mask
};
inline Host host;

// Thrown where an object is not what is read here; the caller is given None and goes a longer way.
struct NotPlain {};
// Thrown where the error of Python is set.
struct HostError {};

inline void require(bool plain) {
  if (!plain) throw NotPlain{};
}

inline bool is(const Object* object, const Object* type) { return object->type == type; }

// A reference of our own.
class Held {
 public:
  Held() = default;
  explicit Held(Object* made) : object_(made) {
    if (!made) throw HostError{};
  }
  static Held of(Object* borrowed) {
    require(borrowed != nullptr);
    host.acquire(borrowed);
    return Held(borrowed);
  }
  Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held&& other) noexcept { return std::swap(object_, other.object_), *this; }
  ~Held() {
    if (object_) host.release(object_);
  }
  Object* get() const { return object_; }
  Object* give() { return std::exchange(object_, nullptr); }

 private:
  Object* object_ = nullptr;
};

// Borrowed; null where a dict has no such key. Keys of other classes may raise when they are compared.
inline Object* item_of(Object* dict, Object* key) {
  Object* const item = host.dict_get(dict, key);
  if (!item && host.error()) throw HostError{};
  return item;
}

// A list or a tuple.
class Items {
 public:
  explicit Items(Object* object) : object_(object), tuple_(is(object, host.tuple)) {
    require(tuple_ || is(object, host.list));
    size_ = tuple_ ? host.tuple_size(object) : host.list_size(object);
  }
  static bool can_read(const Object* object) { return is(object, host.tuple) || is(object, host.list); }
  int64_t size() const { return size_; }
  // Borrowed; a list may have become shorter since.
  Object* operator[](int64_t i) const {
    Object* const item = tuple_ ? host.tuple_get(object_, i) : host.list_get(object_, i);
    require(item != nullptr);
    return item;
  }

 private:
  Object* object_;
  bool tuple_;
  int64_t size_ = 0;
};

// An int, which is no bool.
inline int64_t integer_of(Object* object) {
  require(is(object, host.integer));
  const long long value = host.integer_get(object);
  require(value != -1 || !host.error());
  return value;
}

inline double real_of(Object* object) {
  require(is(object, host.real) || is(object, host.integer) || is(object, host.numpy_real));
  const double value = host.real_get(object);
  require(value != -1 || !host.error());
  return value;
}

// Memory of Python for the numbers of a result.
class Memory {
 public:
  explicit Memory(int64_t bytes) : object_(host.memory_new(nullptr, bytes)) {}
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(host.memory_get(object_.get()));
  }
  Object* give() { return object_.give(); }

 private:
  Held object_;
};

// The memory of an array, for as long as this lives.
class Array {
 public:
  explicit Array(Object* object) { require(host.buffer_get(object, &view_, kStridesAndFormat) == 0); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { host.buffer_release(&view_); }
  int dimensions() const { return view_.dimensions; }
  bool has_type(char type) const { return view_.format && view_.format[0] == type && !view_.format[1]; }
  int64_t shape(int d) const { return view_.shape[d]; }
  int64_t stride(int d) const { return view_.strides[d]; }
  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.data); }

 private:
  HostBuffer view_;
};

// What a function of objects gives back: the object of `body`, None where something is not plain, null where
// the error of Python is set.
template <class Body>
Object* answer(Body&& body) noexcept {
  try {
    return body();
  } catch (const HostError&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return host.error_memory();
  } catch (const std::length_error&) {
    return host.error_memory();
  } catch (...) {  // NotPlain, or what only the longer way can tell
    host.error_clear();
    host.acquire(host.none);
    return host.none;
  }
}

}  // namespace valor
