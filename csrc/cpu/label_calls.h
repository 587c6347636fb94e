// Functions of the C interface that updates of small batches call.
#pragma once
#include "../core/platform.h"

VALOR_API int32_t valor_predict_top_cpu(const void* scores, int64_t type, int64_t rows,
                                        const void* target_words, int64_t k, int32_t* predicted,
                                        int64_t* error, int64_t threads);
VALOR_API int32_t valor_count_labels_cpu(const void* pair_words, int64_t block_rows, void* counts,
                                         int64_t* error, int64_t threads);
VALOR_API int32_t valor_count_pairs_cpu(const void* pair_words, int64_t block_rows, void* matrix,
                                        int64_t* error, int64_t threads);
