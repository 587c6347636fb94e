// A few masks, boxes or polygons of Python to what is asked of them, each in one call on the caller's thread
// with the GIL held: for so few, arrays of the host and waking threads take longer than the work. Nothing
// says what is wrong with a mask: None sends the host the long way, which does.
#include <memory>
#include <vector>

#include "guard.h"
#include "mask_objects.h"
#include "run_list.h"
#include "run_sets.h"

extern "C" int32_t valor_masks_to_runs_cpu(const uint8_t*, int64_t, int64_t, int64_t, int64_t, int64_t,
                                           int64_t, int64_t*, int64_t*, int64_t);

namespace valor {
namespace {

uint32_t area_of(const Runs& runs, int64_t mask) {
  uint32_t area = 0;
  for (int64_t i = 1; i < runs.size(mask); i += 2) area += static_cast<uint32_t>(runs.begin(mask)[i]);
  return area;
}

Object* mask_iou(Object* dt, Object* gt, Object* crowd) {
  const Items rows(dt), columns(gt);
  require(rows.size() * columns.size() <= kMostMaskPairs);
  const std::vector<uint8_t> flags = flags_of(crowd, columns.size());
  const MaskObjects masks(dt), truths(gt);
  const Runs runs = masks.runs(), gt_runs = truths.runs();
  const MeasuredMasks a(runs), b(gt_runs);
  Memory out(8 * runs.masks * gt_runs.masks);
  double* to = out.as<double>();
  for (int64_t j = 0; j < gt_runs.masks; ++j)
    for (int64_t i = 0; i < runs.masks; ++i) {
      const bool same = runs.height(i) == gt_runs.height(j) && runs.width(i) == gt_runs.width(j);
      *to++ = run_iou(a[i], b[j], same, flags[static_cast<size_t>(j)], static_cast<uint32_t>(runs.height(i)));
    }
  return out.give();
}

Object* listed_box_iou(Object* dt, Object* gt, Object* crowd) {
  const std::vector<Box> boxes = boxes_of(dt), truths = boxes_of(gt);
  const int64_t pairs = static_cast<int64_t>(boxes.size() * truths.size());
  require(pairs > 0 && pairs <= kMostBoxPairs);
  const std::vector<uint8_t> flags = flags_of(crowd, static_cast<int64_t>(truths.size()));
  Memory out(8 * pairs);
  double* to = out.as<double>();
  for (size_t j = 0; j < truths.size(); ++j)
    for (const Box& box : boxes) *to++ = box_iou(box, truths[j], flags[j]);
  return out.give();
}

// Masks with counts of any form, again with strings.
Object* encoded(Object* given) {
  const MaskObjects masks(given);
  const Runs runs = masks.runs();
  MaskDicts dicts(runs.masks, masks.single());
  for (int64_t m = 0; m < runs.masks; ++m)
    dicts.add(mask_dict(runs.height(m), runs.width(m), runs.begin(m), runs.size(m)));
  return dicts.give();
}

// One polygon or box as a flat list, a list of them, or an array of boxes.
Object* drawn(Object* given, int64_t height, int64_t width) {
  RingObjects rings(height, width);
  const bool listed = Items::can_read(given);
  if (listed && !Items::can_read(Items(given)[0])) {
    const Items ring(given);
    if (ring.size() != 4) return rings.drawn(ring).give();
    return rings.drawn(Box{real_of(ring[0]), real_of(ring[1]), real_of(ring[2]), real_of(ring[3])}).give();
  }
  if (!listed || Items(Items(given)[0]).size() == 4) {
    const std::vector<Box> boxes = boxes_of(given);
    require(!boxes.empty());
    MaskDicts dicts(static_cast<int64_t>(boxes.size()), false);
    for (const Box& box : boxes) dicts.add(rings.drawn(box));
    return dicts.give();
  }
  const Items items(given);
  MaskDicts dicts(items.size(), false);
  for (int64_t i = 0; i < items.size(); ++i) dicts.add(rings.drawn(Items(items[i])));
  return dicts.give();
}

}  // namespace
}  // namespace valor

using namespace valor;

// The functions of CPython and the objects that are used here, see Host.
VALOR_API int32_t valor_set_host_cpu(const void* table) {
  return guarded([&] { host = *static_cast<const Host*>(table); });
}

// A dict -> its area, an int; a list -> uint32 [n].
VALOR_API Object* valor_mask_areas_cpu(Object* given) {
  return answer([&] {
    const MaskObjects masks(given);
    const Runs runs = masks.runs();
    if (masks.single()) return Held(host.integer_new(area_of(runs, 0))).give();
    Memory out(4 * runs.masks);
    for (int64_t m = 0; m < runs.masks; ++m) out.as<uint32_t>()[m] = area_of(runs, m);
    return out.give();
  });
}

// Masks -> float64 [n, 4]: left, top, width, height.
VALOR_API Object* valor_mask_boxes_cpu(Object* given) {
  return answer([&] {
    const MaskObjects masks(given);
    const Runs runs = masks.runs();
    Memory out(32 * runs.masks);
    double* to = out.as<double>();
    for (int64_t m = 0; m < runs.masks; ++m) {
      RunMeasure measure(runs.height(m));
      for_each_run(runs.begin(m), runs.size(m),
                   [&](uint32_t begin, uint32_t end) { measure.add(begin, end); });
      const RunBox box = measure.box();
      for (const uint32_t side : {box.left, box.top, box.right - box.left, box.bottom - box.top})
        *to++ = side;
    }
    return out.give();
  });
}

// Lists of masks, or boxes, and flags of ground truths -> float64 [g, d].
VALOR_API Object* valor_few_ious_cpu(Object* dt, Object* gt, Object* crowd) {
  return answer([&] {
    const bool masks = Items::can_read(dt) && Items(dt).size() > 0 && is(Items(dt)[0], host.dict);
    return masks ? mask_iou(dt, gt, crowd) : listed_box_iou(dt, gt, crowd);
  });
}

// A list of masks of one size -> the dict of their union or intersection.
VALOR_API Object* valor_merged_mask_cpu(Object* given, Object* intersect) {
  return answer([&] {
    const MaskObjects masks(given);
    require(!masks.single() && masks.same_size());
    const Runs runs = masks.runs();
    std::vector<int32_t> merged;
    merge_group(runs, 0, runs.masks, host.integer_get(intersect) != 0, merged);
    return mask_dict(runs.height(0), runs.width(0), merged.data(), static_cast<int64_t>(merged.size()))
        .give();
  });
}

// Dicts with counts of any form, polygons or boxes -> a dict, or a list of them.
VALOR_API Object* valor_mask_dicts_cpu(Object* given, Object* height, Object* width) {
  return answer([&] {
    const bool listed = Items::can_read(given);
    if (listed) require(Items(given).size() > 0);
    if (is(listed ? Items(given)[0] : given, host.dict)) return encoded(given);
    return drawn(given, integer_of(height), integer_of(width));
  });
}

// bool or uint8 [h, w] -> a dict; [h, w, n] -> a list of them.
VALOR_API Object* valor_encoded_masks_cpu(Object* given) {
  return answer([&] {
    const Array array(given);
    const bool single = array.dimensions() == 2;
    require((single || array.dimensions() == 3) && (array.has_type('B') || array.has_type('?')));
    const int64_t height = array.shape(0), width = array.shape(1), masks = single ? 1 : array.shape(2);
    require(height > 0 && width > 0 && masks > 0 && height * width <= kMostPixels / masks);
    std::vector<int64_t> offsets(static_cast<size_t>(masks) + 1);
    int64_t list = 0;
    if (valor_masks_to_runs_cpu(array.data(), masks, height, width, single ? 0 : array.stride(2),
                                array.stride(0), array.stride(1), offsets.data(), &list, 1) != kDone)
      throw std::bad_alloc();
    const std::unique_ptr<RunList> runs(reinterpret_cast<RunList*>(list));
    MaskDicts dicts(masks, single);
    int64_t m = 0;
    for (const std::vector<int32_t>& part : runs->parts) {
      const int64_t before = offsets[static_cast<size_t>(m)];
      for (; m < masks && offsets[static_cast<size_t>(m) + 1] - before <= static_cast<int64_t>(part.size());
           ++m) {
        const int64_t first = offsets[static_cast<size_t>(m)], end = offsets[static_cast<size_t>(m) + 1];
        dicts.add(mask_dict(height, width, part.data() + first - before, end - first));
      }
    }
    return dicts.give();
  });
}

// Masks of one size -> uint8 [n, w, h], 0 and 1.
VALOR_API Object* valor_decoded_masks_cpu(Object* given) {
  return answer([&] {
    const MaskObjects masks(given);
    const Runs runs = masks.runs();
    const int64_t pixels = runs.pixels(0);
    require(masks.same_size() && pixels > 0 && pixels <= kMostPixels / runs.masks);
    Memory out(pixels * runs.masks);
    uint8_t* to = out.as<uint8_t>();
    for (int64_t m = 0; m < runs.masks; ++m) {
      if (!runs.size(m)) memset(to, 0, static_cast<size_t>(pixels)), to += pixels;
      for (int64_t i = 0; i < runs.size(m); to += runs.begin(m)[i++])
        memset(to, static_cast<int>(i & 1), static_cast<size_t>(runs.begin(m)[i]));
    }
    return out.give();
  });
}
