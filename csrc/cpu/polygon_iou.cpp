// Polygons on the CPU: their edges, the IoU of all pairs, and the pairs of a batch for matching.
#include <memory>
#include <mutex>

#include "guard.h"
#include "pairs.h"
#include "polygon_edges.h"
#include "pool.h"

namespace valor {
namespace {

// Rings say where their vertices begin, polygons where their rings do, items where their polygons do.
struct PolygonItems {
  const double* vertices;
  const int64_t *rings, *polygons, *items;
  int64_t count;

  uint64_t hash(int64_t item) const {
    uint64_t hash = 0x2545f4914f6cdd1dull;
    for (int64_t p = items[item]; p < items[item + 1]; ++p)
      for (int64_t r = polygons[p]; r < polygons[p + 1]; ++r) {
        hash = fold(fold(hash, static_cast<uint64_t>(r - polygons[p])),
                    bits_of(1.0 * (rings[r + 1] - rings[r])));
        for (int64_t i = 2 * rings[r]; i < 2 * rings[r + 1]; ++i) hash = fold(hash, bits_of(vertices[i]));
      }
    return mix(hash);
  }
};

struct EdgePart {
  int64_t first;
  std::vector<PolygonEdge> edges;
};

// The edges of items in memory of C++, until the caller has an array for them.
class EdgeList {
 public:
  void run(const PolygonItems& given, PolygonShape* shapes, uint64_t* hashes, int64_t* offsets,
           int64_t threads) {
    auto body = [&](int64_t begin, int64_t end) {
      PolygonEdgeMaker maker;
      EdgePart part{begin, {}};
      for (int64_t i = begin; i < end; ++i) {
        const size_t before = part.edges.size();
        const int64_t* const polygons = given.polygons + given.items[i];
        const PolygonProblem found = maker.make(given.vertices, given.rings, polygons,
                                                given.items[i + 1] - given.items[i], part.edges, shapes[i]);
        if (found != kGoodPolygon) return note(i, found);
        hashes[i] = given.hash(i);
        offsets[i + 1] = static_cast<int64_t>(part.edges.size() - before);
      }
      std::lock_guard<std::mutex> lock(mutex_);
      parts_.push_back(std::move(part));
    };
    parallel_for(given.count, kItemsPerPart, static_cast<int>(threads), body);
    std::sort(parts_.begin(), parts_.end(),
              [](const EdgePart& a, const EdgePart& b) { return a.first < b.first; });
    offsets[0] = 0;
    if (problem_ == kGoodPolygon)
      for (int64_t i = 0; i < given.count; ++i) offsets[i + 1] += offsets[i];
  }

  void copy(PolygonEdge* out) const {
    for (const EdgePart& part : parts_) out = std::copy(part.edges.begin(), part.edges.end(), out);
  }
  PolygonProblem problem() const { return problem_; }
  int64_t bad_item() const { return bad_; }

 private:
  static constexpr int64_t kItemsPerPart = 256;

  void note(int64_t item, PolygonProblem problem) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (problem_ != kGoodPolygon && bad_ < item) return;
    problem_ = problem;
    bad_ = item;
  }

  std::mutex mutex_;
  std::vector<EdgePart> parts_;
  PolygonProblem problem_ = kGoodPolygon;
  int64_t bad_ = 0;
};

double plain_iou(const PolygonView& detection, const PolygonView& gt, bool crowd) {
  return polygon_iou<false>(Serial{}, detection, gt, crowd);
}

using Measure = double (*)(const PolygonView&, const PolygonView&, bool);

#if defined(__x86_64__)
// The same for processors with fused operations, where all that it calls becomes part of it.
__attribute__((target("avx2,fma"), flatten)) double fused_iou(const PolygonView& detection,
                                                              const PolygonView& gt, bool crowd) {
  return polygon_iou<true>(Serial{}, detection, gt, crowd);
}

Measure fastest() {
  return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2") ? fused_iou : plain_iou;
}
#else
Measure fastest() { return plain_iou; }
#endif

class PolygonSimilarity : public PolygonReach {
 public:
  using PolygonReach::PolygonReach;
  double operator()(int64_t detection, int64_t gt, bool crowd) const {
    return measure_(rows.view(detection), gt_rows.view(gt), crowd);
  }

 private:
  const Measure measure_ = fastest();
};

}  // namespace
}  // namespace valor

// Makes the edges of `count` items. Writes shapes [N, 9], hashes [N], where the edges of each item begin
// [N + 1], and {problem, item, handle} to out; without a problem the handle goes to
// valor_take_polygon_edges_cpu, otherwise it is 0.
VALOR_API int32_t valor_polygon_edges_cpu(const double* vertices, const int64_t* rings,
                                          const int64_t* polygons, const int64_t* items, int64_t count,
                                          int64_t threads, void* shapes, void* hashes, int64_t* offsets,
                                          int64_t* out) {
  return valor::guarded([&] {
    using namespace valor;
    auto list = std::make_unique<EdgeList>();
    list->run({vertices, rings, polygons, items, count}, static_cast<PolygonShape*>(shapes),
              static_cast<uint64_t*>(hashes), offsets, threads);
    out[0] = list->problem();
    out[1] = list->bad_item();
    out[2] = out[0] == kGoodPolygon ? reinterpret_cast<int64_t>(list.release()) : 0;
  });
}

// Copies the edges of all items to `edges` [E, 7], unless it is null, and frees them.
VALOR_API int32_t valor_take_polygon_edges_cpu(int64_t handle, void* edges) {
  return valor::guarded([&] {
    using namespace valor;
    const std::unique_ptr<EdgeList> list(reinterpret_cast<EdgeList*>(handle));
    if (edges) list->copy(static_cast<PolygonEdge*>(edges));
  });
}

// IoU of every polygon of a side with every one of another: out is [n, m]; crowd is [m] or null.
VALOR_API int32_t valor_polygon_iou_cpu(const void* side_words, int64_t n, int64_t m, const uint8_t* crowd,
                                        double* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const PolygonSides& sides = *static_cast<const PolygonSides*>(side_words);
    const Measure measure = fastest();
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < m; ++j)
          out[i * m + j] = measure(sides.rows.view(i), sides.gt_rows.view(j), crowd && crowd[j]);
    };
    parallel_for(n, std::clamp<int64_t>(64 / (m + 1), 1, 64), static_cast<int>(threads), body);
  });
}

// Lists the pairs of a PairBatch over PolygonSides, see csrc/cpu/pairs.h.
VALOR_API int32_t valor_polygon_pairs_cpu(const void* batch_words, int64_t* list, int64_t threads) {
  return valor::guarded([&] {
    const valor::PairBatch& batch = *static_cast<const valor::PairBatch*>(batch_words);
    valor::find_pairs(batch, valor::PolygonSimilarity(batch), threads, list);
  });
}
