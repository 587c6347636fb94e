// The stages of an accumulation, each in a file of its own. They work on one stream and share a workspace,
// with which each is done before the next begins.
#pragma once
#include "curve_tables.h"
#include "order_task.h"

namespace valor {

// Samples of precision and scores that the first clear of an accumulation sets to 0 as well.
struct SampleTables {
  double *precision, *scores;
  int64_t precision_samples, score_samples;
};

int32_t order_workspace(const OrderTask& task, int64_t* bytes);
int32_t order_detections(const OrderTask& task, const SampleTables& samples, void* workspace, void* stream);

// As valor_precision_recall_cuda says, whose arguments `run` and the rest hold. `cleared`: the samples of the
// arrays are 0 already.
struct CurveRun {
  Accumulation run;
  CurveSizes sizes;
  const int64_t* stops;
  int64_t unconditional;
  bool cleared;

  SampleTables samples() const {
    const int64_t each = sizes.shape().settings() * sizes.recalls * sizes.classes * run.curves();
    return {run.precision, run.scores, each, run.full ? each : 0};
  }
};
int64_t curve_workspace(const CurveSizes& sizes, bool full, bool ties);
int32_t run_curves(const CurveRun& curves, void* workspace, void* stream);

// Numbers of the means of a call: R, K, A, C, M, how many picks there are, and the most thresholds of one.
struct MeansSizes {
  int64_t recalls, classes, areas, curves, limits, picks, most_thresholds;
};
int64_t means_workspace(const MeansSizes& sizes);
int32_t run_means(const double* precision, const double* recall, const MeansSizes& sizes,
                  const int64_t* picks, const int64_t* thresholds, double* out, void* workspace,
                  void* stream);

}  // namespace valor
