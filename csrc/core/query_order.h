// Order of the documents of queries: what the CPU and CUDA kernels of query_order share. Definition:
// valor_gpu/ops/queries/reference.py.
#pragma once
#include "error_codes.h"
#include "load.h"
#include "query_tasks.h"
#include "ranks.h"

namespace valor {

// Ascends where scores descend.
template <class Order>
VALOR_HD typename Order::Key descending(typename Order::Raw raw) {
  return ~Order::key(raw);
}

}  // namespace valor
