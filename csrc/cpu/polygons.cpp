// Polygons to run lengths: masks are split over threads.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "guard.h"
#include "pool.h"
#include "rasteriser.h"

namespace valor {
namespace {

struct Polygons {
  const double* vertices;  // [V, 2]
  const int64_t* rings;    // [R + 1]
  const int64_t* masks;    // [N + 1]
  const int32_t* sizes;    // [N, 2]: height, width
  int64_t num_masks;
  PolygonRule rule;
};

// The runs of consecutive masks.
struct Part {
  int64_t first_mask = 0;
  std::vector<int32_t> runs;
};

class Rasterised {
 public:
  // Notes in `sizes` how many runs each mask has. Returns false when a ring has a problem.
  bool run(const Polygons& polygons, int64_t* sizes, int64_t threads) {
    auto body = [&](int64_t begin, int64_t end) {
      Part part;
      part.first_mask = begin;
      if (!take(polygons, begin, end, sizes, part)) return;
      std::lock_guard<std::mutex> lock(mutex_);
      parts_.push_back(std::move(part));
    };
    parallel_for(polygons.num_masks, kMasksPerPart, static_cast<int>(threads), body);
    std::sort(parts_.begin(), parts_.end(),
              [](const Part& a, const Part& b) { return a.first_mask < b.first_mask; });
    return problem == kGoodRing;
  }

  void copy(int32_t* out) const {
    for (const Part& part : parts_) out = std::copy(part.runs.begin(), part.runs.end(), out);
  }

  int64_t mask = 0, ring = 0;
  RingProblem problem = kGoodRing;  // of the first ring that has one

 private:
  static constexpr int64_t kMasksPerPart = 128;

  bool take(const Polygons& polygons, int64_t begin, int64_t end, int64_t* sizes, Part& part) {
    Rasteriser rasteriser;
    for (int64_t m = begin; m < end; ++m) {
      rasteriser.begin(polygons.sizes[2 * m], polygons.sizes[2 * m + 1], polygons.rule);
      for (int64_t r = polygons.masks[m]; r < polygons.masks[m + 1]; ++r) {
        const int64_t first = polygons.rings[r];
        const RingProblem found =
            rasteriser.add_ring(polygons.vertices + 2 * first, polygons.rings[r + 1] - first);
        if (found != kGoodRing) return note(m, r, found), false;
      }
      const size_t before = part.runs.size();
      rasteriser.finish(part.runs);
      sizes[m] = static_cast<int64_t>(part.runs.size() - before);
    }
    return true;
  }

  void note(int64_t at_mask, int64_t at_ring, RingProblem found) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (problem != kGoodRing && ring < at_ring) return;
    mask = at_mask;
    ring = at_ring;
    problem = found;
  }

  std::mutex mutex_;
  std::vector<Part> parts_;
};

}  // namespace
}  // namespace valor

// Rasterises N masks: `rings` says where the vertices of each ring begin, `masks` where the rings of each
// mask do. Writes the number of runs of each mask to `runs` [N], and {handle, problem, mask, ring} to out;
// without a problem the handle goes to valor_take_runs_cpu, otherwise it is 0.
VALOR_API int32_t valor_rasterise_cpu(const double* vertices, const int64_t* rings, const int64_t* masks,
                                      const int32_t* sizes, int64_t num_masks, int64_t rule, int64_t threads,
                                      int64_t* runs, int64_t* out) {
  using namespace valor;
  return guarded([&] {
    auto made = std::make_unique<Rasterised>();
    const Polygons polygons{vertices, rings, masks, sizes, num_masks, static_cast<PolygonRule>(rule)};
    const bool good = made->run(polygons, runs, threads);
    out[1] = made->problem;
    out[2] = made->mask;
    out[3] = made->ring;
    out[0] = good ? reinterpret_cast<int64_t>(made.release()) : 0;
  });
}

// Copies the runs of all masks to counts, unless it is null, and frees them.
VALOR_API int32_t valor_take_runs_cpu(int64_t handle, int32_t* counts) {
  using namespace valor;
  return guarded([&] {
    const std::unique_ptr<Rasterised> made(reinterpret_cast<Rasterised*>(handle));
    if (counts) made->copy(counts);
  });
}
