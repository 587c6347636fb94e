// Functions of the library that others of it call. What defines them includes this too, so that both agree.
#pragma once
#include <stdint.h>

extern "C" {

int32_t valor_predict_top_cuda(const void* scores, int64_t type, int64_t rows, const void* target_words,
                               int64_t k, int32_t* predicted, int64_t* matrix, int64_t* error, void* stream);
int32_t valor_predict_maps_cuda(const void* scores, int64_t type, int64_t images, int64_t pixels,
                                const void* target_words, int32_t* predicted, int64_t* error, void* stream);
int32_t valor_count_labels_cuda(const void* pair_words, int64_t block_rows, double* partial, void* counts,
                                int64_t* error, void* stream);
int32_t valor_count_pairs_cuda(const void* pair_words, int64_t block_rows, double* partial, void* matrix,
                               int64_t* error, void* stream);
int32_t valor_confuse_scores_cuda(const void* scores, int64_t type, int64_t rows, const void* target_words,
                                  int64_t block_rows, int32_t* predicted, int64_t* matrix, int64_t* error,
                                  void* stream);
int32_t valor_sweep_cuda(const void* scores, int64_t type, int64_t rows, const void* target,
                         const void* tables, const int64_t* words, const double* weight, int64_t block,
                         void* workspace, void* histogram, int64_t* error, void* stream);
int32_t valor_sweep_activated_cuda(const void* scores, int64_t type, int64_t rows, const void* target,
                                   const void* tables, const int64_t* words, int64_t reading, void* flags,
                                   void* shares, void* outside, void* histogram, int64_t* error,
                                   int64_t* served, void* stream);
}
