// operator new and delete of this library alone, which count where somebody measures.
#include "memory.h"

#include <stdlib.h>
#if defined(__APPLE__)
#include <malloc/malloc.h>
#else
#include <malloc.h>
#endif

#include <new>

#include "../core/platform.h"
#include "guard.h"

// Hidden: every call of this library comes here, and no other library does. An attribute would not do, since
// the compiler has declared these functions before, as visible.
#if defined(__APPLE__)
#define VALOR_HIDE(name) asm(".private_extern _" name)
#else
#define VALOR_HIDE(name) asm(".hidden " name)
#endif
VALOR_HIDE("_Znwm");
VALOR_HIDE("_Znam");
VALOR_HIDE("_ZnwmRKSt9nothrow_t");
VALOR_HIDE("_ZnamRKSt9nothrow_t");
VALOR_HIDE("_ZdlPv");
VALOR_HIDE("_ZdaPv");
VALOR_HIDE("_ZdlPvm");
VALOR_HIDE("_ZdaPvm");
VALOR_HIDE("_ZdlPvRKSt9nothrow_t");
VALOR_HIDE("_ZdaPvRKSt9nothrow_t");

namespace {

thread_local valor::MemoryCount own;

// As the C library has it: a block that libstdc++ took and this library frees has no size that we could have
// kept.
int64_t size_of(void* block) {
#if defined(__APPLE__)
  return static_cast<int64_t>(malloc_size(block));
#else
  return static_cast<int64_t>(malloc_usable_size(block));
#endif
}

void* take(size_t size) noexcept {
  void* block = malloc(size > 0 ? size : 1);
  auto* count = valor::memory_count();
  if (count != nullptr && block != nullptr) count->add(size_of(block));
  return block;
}

void* take_or_throw(size_t size) {
  void* block = take(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void give_back(void* block) noexcept {
  auto* count = valor::memory_count();
  if (count != nullptr && block != nullptr) count->add(-size_of(block));
  free(block);
}

}  // namespace

void* operator new(size_t size) { return take_or_throw(size); }
void* operator new[](size_t size) { return take_or_throw(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return take(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return take(size); }
void operator delete(void* block) noexcept { give_back(block); }
void operator delete[](void* block) noexcept { give_back(block); }
void operator delete(void* block, size_t) noexcept { give_back(block); }
void operator delete[](void* block, size_t) noexcept { give_back(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { give_back(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { give_back(block); }

// Begins to count what the calling thread takes in this library; or ends that and writes the most there was.
VALOR_API int32_t valor_count_memory_cpu(int32_t begin, int64_t* most) {
  return valor::guarded([&] {
    if (begin) {
      own.now = own.most = 0;
      valor::counting = &own;
      ++valor::measuring;
    } else {
      --valor::measuring;
      valor::counting = nullptr;
      *most = own.most;
    }
  });
}
