// Accumulation of detection records, enqueued by one call of the host.
#include "accumulate_stages.h"

namespace valor {
namespace {

// Fields are 64-bit words, as Python packs them; `num_ties` words follow, each a TieOrder.
struct AccumulateTask {
  OrderTask order;
  int64_t recalls, unconditional, full;
  int64_t picks, most_thresholds;  // how many means, and the thresholds of the longest
  const int64_t* constants;        // on the device: the grid, the picks, their thresholds
  double *precision, *recall, *scores, *means;
  int64_t num_ties;

  const int64_t* ties() const { return reinterpret_cast<const int64_t*>(this + 1); }
  bool tied() const {
    bool found = false;
    for (int64_t i = 0; i < num_ties; ++i) found |= ties()[i] != kGiven;
    return found;
  }
  int64_t curves() const { return full ? order.limits : 1; }
  CurveSizes curve_sizes() const {
    return {order.thresholds, order.areas, order.limits, recalls, order.classes(), order.num_detections};
  }
  MeansSizes means_sizes() const {
    return {recalls, order.classes(), order.areas, curves(), order.limits, picks, most_thresholds};
  }
  int64_t samples() const { return order.thresholds * recalls * order.classes() * order.areas * curves(); }
  int64_t recall_values() const { return order.thresholds * order.classes() * order.areas * order.limits; }
};

// What the stages share, and the arrays of every order of ties but the first.
struct Workspace {
  unsigned char* stage = nullptr;
  double *precision = nullptr, *recall = nullptr, *scores = nullptr;
  int64_t bytes = 0;
};

int32_t place(const AccumulateTask& task, void* base, Workspace& space) {
  int64_t bytes;
  if (const int32_t status = order_workspace(task.order, &bytes)) return status;
  for (const int64_t found : {curve_workspace(task.curve_sizes(), task.full != 0, task.tied()),
                              means_workspace(task.means_sizes())})
    bytes = found > bytes ? found : bytes;
  const bool others = task.num_ties > 1;
  TableLayout layout(base);
  layout.place(space.stage, bytes);
  layout.place(space.precision, others ? task.samples() : 0);
  layout.place(space.recall, others ? task.recall_values() : 0);
  layout.place(space.scores, others && task.full ? task.samples() : 0);
  space.bytes = layout.bytes();
  return 0;
}

int32_t run_ties(const AccumulateTask& task, const Workspace& space, int64_t at, void* stream) {
  const CurveSizes sizes = task.curve_sizes();
  const int64_t* grid = task.constants;
  const int64_t* picks = grid + 3 * sizes.recalls + 1;
  const bool first = at == 0;
  const CurveRun curves{
      {sizes.shape(), task.order.detections, task.order.order, task.order.offsets, task.order.positives,
       reinterpret_cast<const double*>(grid), grid + sizes.recalls, task.full != 0,
       static_cast<TieOrder>(task.ties()[at]), first ? task.precision : space.precision,
       first ? task.recall : space.recall, first ? task.scores : space.scores},
      sizes,
      grid + 2 * sizes.recalls,
      task.unconditional,
      first};
  const int32_t status = run_curves(curves, space.stage, stream);
  return status ? status
                : run_means(curves.run.precision, curves.run.recall, task.means_sizes(), picks,
                            picks + 5 * task.picks, task.means + at * task.picks, space.stage, stream);
}

}  // namespace
}  // namespace valor

// Bytes of workspace that valor_accumulate_cuda needs for the same task, of which it reads the sizes.
VALOR_API int32_t valor_accumulate_workspace_cuda(const void* words, int64_t* bytes) {
  using namespace valor;
  Workspace space;
  const int32_t status = place(*static_cast<const AccumulateTask*>(words), nullptr, space);
  *bytes = space.bytes;
  return status;
}

// Fills all that an AccumulateTask puts out, of which `words` lie on the host. Nothing holds where a word
// says so: repeated images, scores that float32 does not hold (unless wide), too many labels. Less than 2^31
// rows.
VALOR_API int32_t valor_accumulate_cuda(const void* words, void* workspace, void* stream) {
  using namespace valor;
  const AccumulateTask& task = *static_cast<const AccumulateTask*>(words);
  Workspace space;
  int32_t status = place(task, workspace, space);
  const int64_t samples = task.samples();
  if (status == 0)
    status = order_detections(task.order, {task.precision, task.scores, samples, task.full ? samples : 0},
                              space.stage, stream);
  for (int64_t i = 0; status == 0 && i < task.num_ties; ++i) status = run_ties(task, space, i, stream);
  return status;
}
