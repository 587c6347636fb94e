// Numbers of resampled records on CUDA: the task as Python packs it, and the tables in between. The lanes of
// a warp are replicates: arrays of a portion of them end with its width, a multiple of 32.
#pragma once
#include "../core/resampled_means.h"
#include "launch.h"
#include "table_layout.h"

namespace valor {

// One mean: an array, its area range and limit, which thresholds of the list.
struct ResampledPick {
  int64_t of_recall, area, limit, first, count;
};

// Fields are 64-bit words. Everything but the task itself is on the device.
struct ResampledTask {
  const uint8_t* detections;
  const int64_t *order, *offsets;
  const int32_t* record_units;
  const uint8_t* truths;
  const int64_t* truth_offsets;
  const int32_t* truth_units;
  const uint8_t* weights;    // [units, L]
  const int64_t* constants;  // the grid as of valor_precision_recall_cuda, picks, their thresholds
  double *means, *class_precision, *class_recall;
  int64_t thresholds, areas, limits, recalls, classes, records, replicates;
  int64_t picks, most_thresholds;  // of the longest pick
  int64_t full, portion;           // replicates that are worked on at once, a multiple of 32

  VALOR_HD CurveShape shape() const { return {thresholds, areas, limits, recalls, classes}; }
  VALOR_HD int64_t settings() const { return thresholds * areas; }
  VALOR_HD int64_t curves() const { return full ? limits : 1; }
  VALOR_HD int64_t limit_of(int64_t curve) const { return full ? curve : limits - 1; }
  VALOR_HD int64_t batches() const { return records / 32 + classes; }
  VALOR_HD const double* grid() const { return reinterpret_cast<const double*>(constants); }
  VALOR_HD const int64_t* grid_places() const { return constants + recalls; }
  VALOR_HD const int64_t* stops() const { return constants + 2 * recalls; }
  VALOR_HD const ResampledPick* pick_rows() const {
    return reinterpret_cast<const ResampledPick*>(constants + 3 * recalls + 1);
  }
  VALOR_HD const int64_t* pick_thresholds() const { return constants + 3 * recalls + 1 + 5 * picks; }
};

struct ResampledTables {
  uint32_t* masks;     // [batches, 2, settings] true, then false positives of 32 records
  uint32_t* kept;      // [batches, M] records within each limit
  uint32_t* tied;      // [batches] records of the class, score and unit of the one before
  int32_t* positives;  // [K, A, width]
  int32_t* places;     // [K, A, width] classes before that have positives
  int32_t* present;    // [A, width] classes that have them
  double* precision;   // [A, C, T, R, present, width], classes without positives left out
  double* recall;      // [A, M, T, present, width]
  double* sums;        // [jobs, paths, width]
};

// A portion of the replicates.
struct ResampledRun {
  ResampledTask task;
  ResampledTables tables;
  int64_t first, width;

  // Batches of class k begin here: never fewer than its records need lie before the next class.
  VALOR_HD int64_t first_batch(int64_t k) const { return task.offsets[k] / 32 + k; }
  VALOR_HD uint32_t& mask(int64_t batch, int kind, int64_t setting) const {
    return tables.masks[(batch * 2 + kind) * task.settings() + setting];
  }
  VALOR_HD uint32_t& kept(int64_t batch, int64_t m) const { return tables.kept[batch * task.limits + m]; }
  VALOR_HD int32_t& positives(int64_t k, int64_t a, int64_t lane) const {
    return tables.positives[(k * task.areas + a) * width + lane];
  }
  VALOR_HD int32_t& place(int64_t k, int64_t a, int64_t lane) const {
    return tables.places[(k * task.areas + a) * width + lane];
  }
  // Values of the first class of a replicate lie at its lane; see the tables for where others do.
  VALOR_HD double* samples(int64_t a, int64_t curve, int64_t t) const {
    return tables.precision + ((a * task.curves() + curve) * task.thresholds + t) * task.recalls * row();
  }
  VALOR_HD double* recalls(int64_t a, int64_t m, int64_t t) const {
    return tables.recall + ((a * task.limits + m) * task.thresholds + t) * row();
  }
  VALOR_HD int64_t row() const { return task.classes * width; }  // values of a sample
  // The weight of a unit in the replicate of a lane; those behind the last one repeat it and give no result.
  VALOR_HD int32_t weight(int32_t unit, int64_t lane) const {
    const int64_t at = first + lane, last = task.replicates - 1;
    return task.weights[unit * task.replicates + (at < last ? at : last)];
  }
};

// What is averaged; a job is one mean of each replicate: a pick, or a class.
enum ResampledMean : int32_t { kPickMean, kClassPrecision, kClassRecall };

int64_t sums_of_means(const ResampledTask& task);
int32_t run_resampled_means(const ResampledRun& run, void* stream);

}  // namespace valor
