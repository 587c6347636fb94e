// Accumulation of detection records on the CPU: as one run, and in parts.
#include "accumulate.h"

#include "guard.h"

// Does what the task says, or only fills the report: see AccumulateTask.
VALOR_API int32_t valor_accumulate_cpu(const valor::AccumulateTask* task) {
  return valor::guarded([&] {
    const valor::Report report = valor::Accumulate(*task).run();
    memcpy(task->report, &report, sizeof report);
  });
}

// Writes at most `capacity` labels and always how many there are; totals: detections, ground truths, ignored
// ones.
VALOR_API int32_t valor_label_counts_cpu(const uint8_t* detections, int64_t num_detections,
                                         int64_t detection_bytes, const uint8_t* ground_truths,
                                         int64_t num_ground_truths, int64_t ground_truth_bytes,
                                         int64_t num_areas, int64_t capacity, int64_t* labels,
                                         int64_t* num_labels, int64_t* totals) {
  return valor::guarded([&] {
    using namespace valor;
    LabelSet seen;
    std::fill(totals, totals + 3, 0);
    for (int64_t i = 0; i < num_detections; ++i)
      totals[0] += note_detection(detections + i * detection_bytes, seen);
    for (int64_t j = 0; j < num_ground_truths; ++j) {
      const uint8_t* row = ground_truths + j * ground_truth_bytes;
      const bool real = note_ground_truth(row, num_areas, seen);
      totals[1] += real;
      totals[2] += real && ground_truth_bit(row, num_areas + 1);
    }
    const std::vector<int64_t> found = seen.ascending();
    *num_labels = static_cast<int64_t>(found.size());
    std::copy_n(found.begin(), std::min(*num_labels, capacity), labels);
  });
}

// Orders records by (class, score descending, place in the given image order, index in image). `order` has
// room for all rows; rows beyond every limit, padding and labels that are not wanted are left out. K + 1
// offsets.
VALOR_API int32_t valor_order_records_cpu(const uint8_t* records, int64_t row_bytes, int64_t num_limits,
                                          const int64_t* starts, const int64_t* lengths, int64_t num_images,
                                          const int64_t* labels, int64_t num_classes, int64_t agnostic,
                                          int64_t* order, int64_t* offsets, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const RecordOrder ordered(records, row_bytes, num_limits, {starts, lengths, num_images},
                              ClassIndex(labels, num_classes), num_classes, agnostic, offsets, order,
                              threads);
    auto body = [&](int64_t begin, int64_t end) {
      RecordOrder::Room room;
      for (int64_t k = begin; k < end; ++k) ordered.sort(k, room);
    };
    parallel_for(num_classes, 1, static_cast<int>(threads), body);
  });
}

// Adds up counts [K, A], zero at first, of the area bits of ground-truth rows whose label is wanted.
VALOR_API int32_t valor_count_ground_truths_cpu(const uint8_t* ground_truths, int64_t rows, int64_t row_bytes,
                                                const int64_t* labels, int64_t num_classes, int64_t num_areas,
                                                int64_t agnostic, int64_t* counts) {
  return valor::guarded([&] {
    using namespace valor;
    add_positives(ground_truths, rows, row_bytes, ClassIndex(labels, num_classes), agnostic, num_areas,
                  counts);
  });
}

// Fills precision [T, R, K, A, M or 1] (and scores, when full) and recall [T, K, A, M].
VALOR_API int32_t valor_precision_recall_cpu(const uint8_t* records, const int64_t* order,
                                             const int64_t* offsets, const int64_t* positives,
                                             const int64_t* sizes, const double* recall_grid,
                                             const int64_t* grid_places, int64_t full, int64_t ties,
                                             double* precision, double* recall, double* scores,
                                             int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const CurveShape shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const Accumulation run{shape,       records,   order,
                           offsets,     positives, recall_grid,
                           grid_places, full != 0, static_cast<TieOrder>(ties),
                           precision,   recall,    scores};
    clear_curves(run);
    auto body = [&](int64_t begin, int64_t end) {
      ClassCurve curve(run);
      for (int64_t k = begin; k < end; ++k) curve.run(k);
    };
    parallel_for(shape.classes, 1, static_cast<int>(threads), body);
  });
}
