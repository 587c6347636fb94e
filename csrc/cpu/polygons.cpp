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

constexpr int64_t kMasksPerPart = 128;
constexpr int64_t kRunsPerMask = 200;  // a guess: those of COCO have 150

// The runs of consecutive masks.
struct Part {
  int64_t first_mask = 0;
  std::vector<int32_t> runs;
};

// The first ring that has a problem.
struct BadRing {
  void note(int64_t at_mask, int64_t at_ring, RingProblem found) {
    std::lock_guard<std::mutex> lock(mutex);
    if (problem != kGoodRing && ring < at_ring) return;
    problem = found;
    mask = at_mask;
    ring = at_ring;
  }

  void write(int64_t* out) const { out[0] = problem, out[1] = mask, out[2] = ring; }

  RingProblem problem = kGoodRing;
  int64_t mask = 0, ring = 0;
  std::mutex mutex;
};

class Rasterised {
 public:
  // Notes in `sizes` how many runs each mask has, unless a ring has a problem.
  void run(const Polygons& polygons, int64_t* sizes, int64_t threads) {
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
  }

  void copy(int32_t* out) const {
    for (const Part& part : parts_) out = std::copy(part.runs.begin(), part.runs.end(), out);
  }

  BadRing bad;

 private:
  bool take(const Polygons& polygons, int64_t begin, int64_t end, int64_t* sizes, Part& part) {
    Rasteriser rasteriser;
    part.runs.reserve(kRunsPerMask * (end - begin));
    for (int64_t m = begin; m < end; ++m) {
      rasteriser.begin(polygons.sizes[2 * m], polygons.sizes[2 * m + 1], polygons.rule);
      for (int64_t r = polygons.masks[m]; r < polygons.masks[m + 1]; ++r) {
        const int64_t first = polygons.rings[r];
        const RingProblem found =
            rasteriser.add_ring(polygons.vertices + 2 * first, polygons.rings[r + 1] - first);
        if (found != kGoodRing) return bad.note(m, r, found), false;
      }
      const size_t before = part.runs.size();
      rasteriser.finish(part.runs);
      sizes[m] = static_cast<int64_t>(part.runs.size() - before);
    }
    return true;
  }

  std::mutex mutex_;
  std::vector<Part> parts_;
};

// How often the edges of a ring cross columns.
template <class Edge>
int64_t count_crossings(const double* xy, int64_t vertices, int32_t width) {
  int64_t crossings = 0;
  typename Edge::Point a = Edge::vertex(xy + 2 * (vertices - 1));
  for (int64_t i = 0; i < vertices; ++i) {
    const typename Edge::Point b = Edge::vertex(xy + 2 * i);
    Edge edge;
    if (edge.prepare(a, b, width)) crossings += edge.last - edge.first + 1;
    a = b;
  }
  return crossings;
}

template <class Edge>
void count_all(const Polygons& polygons, int64_t threads, int64_t* rooms, BadRing& bad) {
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      const int32_t height = polygons.sizes[2 * m], width = polygons.sizes[2 * m + 1];
      rooms[m] = 0;
      for (int64_t r = polygons.masks[m]; r < polygons.masks[m + 1]; ++r) {
        const double* const xy = polygons.vertices + 2 * polygons.rings[r];
        const int64_t vertices = polygons.rings[r + 1] - polygons.rings[r];
        const RingProblem found = check_ring(xy, vertices);
        if (found != kGoodRing) return bad.note(m, r, found);
        if (height > 0 && width > 0) rooms[m] += count_crossings<Edge>(xy, vertices, width);
      }
    }
  };
  parallel_for(polygons.num_masks, kMasksPerPart, static_cast<int>(threads), body);
}

}  // namespace
}  // namespace valor

// Rasterises N masks: `rings` says where the vertices of each ring begin, `masks` where the rings of each
// mask do. Writes the number of runs of each mask to `runs` [N], and {problem, mask, ring, handle} to out;
// without a problem the handle goes to valor_take_runs_cpu, otherwise it is 0.
VALOR_API int32_t valor_rasterise_cpu(const double* vertices, const int64_t* rings, const int64_t* masks,
                                      const int32_t* sizes, int64_t num_masks, int64_t rule, int64_t threads,
                                      int64_t* runs, int64_t* out) {
  return valor::guarded([&] {
    using namespace valor;
    auto made = std::make_unique<Rasterised>();
    made->run({vertices, rings, masks, sizes, num_masks, static_cast<PolygonRule>(rule)}, runs, threads);
    made->bad.write(out);
    out[3] = out[0] == kGoodRing ? reinterpret_cast<int64_t>(made.release()) : 0;
  });
}

// How often the edges of each mask cross columns, to `rooms` [N], and {problem, mask, ring} to out.
VALOR_API int32_t valor_polygon_rooms_cpu(const double* vertices, const int64_t* rings, const int64_t* masks,
                                          const int32_t* sizes, int64_t num_masks, int64_t rule,
                                          int64_t threads, int64_t* rooms, int64_t* out) {
  return valor::guarded([&] {
    using namespace valor;
    const Polygons polygons{vertices, rings, masks, sizes, num_masks, static_cast<PolygonRule>(rule)};
    BadRing bad;
    if (rule == kCentreRule)
      count_all<CentreEdge>(polygons, threads, rooms, bad);
    else
      count_all<CocoEdge>(polygons, threads, rooms, bad);
    bad.write(out);
  });
}

// Copies the runs of all masks to counts, unless it is null, and frees them.
VALOR_API int32_t valor_take_runs_cpu(int64_t handle, int32_t* counts) {
  return valor::guarded([&] {
    using namespace valor;
    const std::unique_ptr<Rasterised> made(reinterpret_cast<Rasterised*>(handle));
    if (counts) made->copy(counts);
  });
}
