// From the tables of matching to everything that the numbers of an evaluation are read from, in one run.
#pragma once
#include <memory>
#include <vector>

#include "class_curve.h"
#include "image_order.h"
#include "pool.h"
#include "present_means.h"
#include "record_order.h"
#include "record_rows.h"

namespace valor {

// What a run reads and writes; _Task in valor_gpu/ops/accumulate/cpu.py has the same fields. Where the room
// for labels or classes is too small, nothing but `report` is written.
struct AccumulateTask {
  const uint8_t *detections, *ground_truths;
  const ImageRow* images;
  int64_t num_detections, num_ground_truths, num_images;
  int64_t thresholds, areas, limits;
  const double* recall_grid;  // ascending
  const int64_t* grid_places;
  int64_t recalls;
  const int64_t* ties;  // TieOrder, the arrays being those of the first
  int64_t num_ties;
  const MeanPick* picks;
  const int64_t* pick_thresholds;
  int64_t num_picks;
  const int64_t *wanted_labels, *wanted_images;  // null: all that are found; without copies of an image
  int64_t num_wanted_labels, num_wanted_images;
  int64_t by_key, agnostic, full, threads;
  int64_t label_room, class_room;
  int64_t *labels, *positives, *offsets, *order;
  double *precision, *recall, *scores, *means;
  int64_t* totals;  // [9]: Totals in valor_gpu/ops/accumulate/types.py
  int64_t* report;  // [7]: Report
};

// What else the caller has to know; _Report in valor_gpu/ops/accumulate/cpu.py.
struct Report {
  Repeats repeats;
  int64_t labels = 0, classes = 0;
  int64_t stray_images = 0;  // 1: images and tables do not have the same rows
};
static_assert(sizeof(Report) == 7 * 8, "Report holds int64 fields only");

// The images that count and their rows.
struct ChosenImages {
  std::vector<int64_t> rows;             // of the images table, in the order that breaks ties
  std::vector<int64_t> starts, lengths;  // of their detections
  std::vector<uint8_t> counts;           // by row of the images table, whether it counts
};

class Accumulate {
 public:
  explicit Accumulate(const AccumulateTask& task) : task_(task) {}

  Report run() {
    if (!choose_images()) return report_;
    std::vector<int64_t> found = count_rows();
    if (task_.wanted_labels) found.assign(task_.wanted_labels, task_.wanted_labels + task_.num_wanted_labels);
    report_.labels = static_cast<int64_t>(found.size());
    report_.classes = task_.agnostic ? std::min<int64_t>(report_.labels, 1) : report_.labels;
    if (report_.labels > task_.label_room || report_.classes > task_.class_room) return report_;
    std::copy(found.begin(), found.end(), task_.labels);
    read_curves();
    return report_;
  }

 private:
  // False where an id names two images, or the tables have other rows than the images.
  bool choose_images() {
    int64_t detections = 0, ground_truths = 0;
    std::vector<int64_t> starts(task_.num_images);
    for (int64_t i = 0; i < task_.num_images; ++i) {
      const ImageRow& image = task_.images[i];
      report_.stray_images |= image.detections < 0 || image.detections > task_.num_detections - detections ||
                              image.ground_truths < 0 ||
                              image.ground_truths > task_.num_ground_truths - ground_truths;
      if (report_.stray_images) return false;
      starts[i] = detections;
      detections += image.detections;
      ground_truths += image.ground_truths;
    }
    report_.stray_images = detections != task_.num_detections || ground_truths != task_.num_ground_truths;
    if (task_.wanted_images)
      images_.rows.assign(task_.wanted_images, task_.wanted_images + task_.num_wanted_images);
    else
      images_.rows =
          ImageOrder(task_.images, task_.num_images).without_repeats(task_.by_key, report_.repeats);
    if (report_.stray_images || report_.repeats.conflict) return false;
    images_.counts.assign(task_.num_images, 0);
    for (int64_t row : images_.rows) {
      if (row < 0 || row >= task_.num_images) return report_.stray_images = 1, false;
      images_.starts.push_back(starts[row]);
      images_.lengths.push_back(task_.images[row].detections);
      images_.counts[row] = 1;
    }
    return true;
  }

  // Totals of the images that count, and the labels of their rows.
  std::vector<int64_t> count_rows() {
    LabelSet seen;
    int64_t* totals = task_.totals;
    std::fill(totals, totals + 9, 0);
    totals[0] = static_cast<int64_t>(images_.rows.size());
    totals[1] = task_.num_images - totals[0];
    each_image([&](const ImageRow& image, const uint8_t* detection, const uint8_t* ground_truth) {
      for (int64_t i = 0; i < image.detections; ++i, detection += shape().row_bytes()) {
        totals[2] += note_detection(detection, seen);
      }
      for (int64_t j = 0; j < image.ground_truths; ++j, ground_truth += ground_truth_bytes()) {
        const bool real = note_ground_truth(ground_truth, task_.areas, seen);
        totals[3] += real;
        totals[4] += real && ground_truth_bit(ground_truth, task_.areas + 1);
      }
      note_box_sizes(image);
    });
    return seen.ascending();
  }

  // Negative sizes add up, and the largest coordinate is kept, of detections and of ground truths.
  void note_box_sizes(const ImageRow& image) {
    int32_t negative[2];
    float reach[2], largest[2];
    memcpy(negative, &image.negative_sizes, 8);
    memcpy(reach, &image.reaches, 8);
    memcpy(largest, task_.totals + 8, 8);
    for (int side = 0; side < 2; ++side) {
      task_.totals[6 + side] += negative[side];
      largest[side] = std::max(largest[side], reach[side]);
    }
    memcpy(task_.totals + 8, largest, 8);
  }

  void count_positives(const ClassIndex& index) {
    std::fill(task_.positives, task_.positives + report_.classes * task_.areas, 0);
    if (report_.classes == 0) return;
    each_image([&](const ImageRow& image, const uint8_t*, const uint8_t* row) {
      add_positives(row, image.ground_truths, ground_truth_bytes(), index, task_.agnostic, task_.areas,
                    task_.positives);
    });
  }

  void read_curves() {
    const ClassIndex index(task_.labels, report_.classes);
    count_positives(index);
    const ImageRows images{images_.starts.data(), images_.lengths.data(), task_.totals[0]};
    const RecordOrder records(task_.detections, shape().row_bytes(), task_.limits, images, index,
                              report_.classes, task_.agnostic, task_.offsets, task_.order, task_.threads);
    task_.totals[5] = task_.offsets[report_.classes];
    const std::vector<Accumulation> runs = runs_of_ties();
    for (const Accumulation& run : runs) clear_curves(run);
    auto body = [&](int64_t begin, int64_t end) {
      RecordOrder::Room room;
      for (const Accumulation& run : runs) {
        ClassCurve curve(run);
        for (int64_t k = begin; k < end; ++k) {
          if (&run == runs.data()) records.sort(k, room);
          curve.run(k);
        }
      }
    };
    // A helper takes longer to wake up than so few rows take.
    const bool small = task_.num_detections + task_.num_ground_truths < kRowsForHelpers;
    parallel_for(report_.classes, 1, small ? 1 : static_cast<int>(task_.threads), body);
    for (size_t i = 0; i < runs.size(); ++i) take_means(runs[i], task_.means + i * task_.num_picks);
  }

  void take_means(const Accumulation& run, double* means) const {
    PresentMeans present(run);
    for (int64_t p = 0; p < task_.num_picks; ++p)
      means[p] = present.mean(task_.picks[p], task_.pick_thresholds);
  }

  // One for each order of ties. The arrays of all but the first are ours; nobody reads their scores.
  std::vector<Accumulation> runs_of_ties() {
    const CurveShape s = shape();
    const bool full = task_.full != 0;
    const int64_t samples = s.settings() * s.recalls * s.classes * (full ? s.limits : 1);
    const int64_t recalls = s.settings() * s.classes * s.limits, others = task_.num_ties - 1;
    if (others > 0) spare_.reset(new double[others * (samples + recalls) + samples]);
    std::vector<Accumulation> runs;
    for (int64_t i = 0; i <= others; ++i) {
      const auto ties = static_cast<TieOrder>(task_.ties[i]);
      Accumulation run{s,
                       task_.detections,
                       task_.order,
                       task_.offsets,
                       task_.positives,
                       task_.recall_grid,
                       task_.grid_places,
                       full,
                       ties,
                       task_.precision,
                       task_.recall,
                       task_.scores};
      if (i > 0) {
        run.scores = spare_.get();
        run.precision = spare_.get() + samples + (i - 1) * (samples + recalls);
        run.recall = run.precision + samples;
      }
      runs.push_back(run);
    }
    return runs;
  }

  template <class Visit>
  void each_image(Visit visit) const {
    const uint8_t *detection = task_.detections, *ground_truth = task_.ground_truths;
    for (int64_t i = 0; i < task_.num_images; ++i) {
      const ImageRow& image = task_.images[i];
      if (images_.counts[i]) visit(image, detection, ground_truth);
      detection += image.detections * shape().row_bytes();
      ground_truth += image.ground_truths * ground_truth_bytes();
    }
  }

  CurveShape shape() const {
    return {task_.thresholds, task_.areas, task_.limits, task_.recalls, report_.classes};
  }
  int64_t ground_truth_bytes() const { return 4 + (task_.areas + 2 + 7) / 8; }

  static constexpr int64_t kRowsForHelpers = 1 << 14;
  const AccumulateTask& task_;
  Report report_;
  ChosenImages images_;
  std::unique_ptr<double[]> spare_;
};

}  // namespace valor
