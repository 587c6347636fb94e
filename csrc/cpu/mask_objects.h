// Masks, polygons, boxes and pixels as pycocotools has them in Python, read without anything in between.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "../core/boxes.h"
#include "../core/runs.h"
#include "host_objects.h"
#include "rasteriser.h"

namespace valor {

// Work of one call with the GIL held, about 2 ms; what is more goes to threads without it.
constexpr int64_t kMostCharacters = 1 << 20;
constexpr int64_t kMostPixels = 1 << 22;
constexpr int64_t kMostMaskPairs = 1 << 10, kMostBoxPairs = 1 << 17;
constexpr int64_t kMostColumns = 1 << 25;  // vertices x width: columns that edges could cross

// Sizes and runs of a dict, or of a list or tuple of them. Counts are bytes, str or a list of integers.
class MaskObjects {
 public:
  explicit MaskObjects(Object* given) : single_(is(given, host.dict)) {
    const int64_t masks = single_ ? 1 : Items(given).size();
    require(masks > 0 && masks <= kMostCharacters);
    sizes_.reserve(static_cast<size_t>(2 * masks));
    offsets_.reserve(static_cast<size_t>(masks) + 1);
    offsets_.push_back(0);
    if (single_) add(given);
    for (int64_t m = 0; !single_ && m < masks; ++m) add(Items(given)[m]);
  }
  bool single() const { return single_; }
  Runs runs() const { return Runs{counts_.data(), offsets_.data(), sizes_.data(), masks()}; }
  int64_t masks() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  bool same_size() const {
    for (size_t i = 2; i < sizes_.size(); ++i)
      if (sizes_[i] != sizes_[i - 2]) return false;
    return true;
  }

 private:
  void add(Object* given) {
    const Held mask = Held::of(given);  // a comparison of keys may run code that drops it
    require(is(given, host.dict));
    const Held size = Held::of(item_of(given, host.size));
    const Held counts = Held::of(item_of(given, host.counts));
    const Items sides(size.get());
    require(sides.size() == 2);
    const int64_t height = integer_of(sides[0]), width = integer_of(sides[1]);
    require(height >= 0 && width >= 0 && height <= INT32_MAX && width <= INT32_MAX &&
            height * width <= INT32_MAX);
    const int64_t runs = Items::can_read(counts.get()) ? listed(Items(counts.get()), height * width)
                                                       : decoded(counts.get(), height * width);
    offsets_.push_back(offsets_.back() + runs);
    sizes_.push_back(static_cast<int32_t>(height));
    sizes_.push_back(static_cast<int32_t>(width));
  }

  // Room for more runs behind those of the masks before.
  int32_t* room(int64_t runs) {
    const int64_t end = offsets_.back() + runs;
    require(end <= kMostCharacters);
    if (end > static_cast<int64_t>(counts_.size())) counts_.resize(static_cast<size_t>(end + end / 2));
    return counts_.data() + offsets_.back();
  }

  int64_t decoded(Object* counts, int64_t pixels) {
    const char* text = nullptr;
    intptr_t characters = 0;
    if (is(counts, host.bytes)) {
      char* bytes = nullptr;
      require(host.bytes_get(counts, &bytes, &characters) == 0);
      text = bytes;
    } else {
      require(is(counts, host.text));
      text = host.text_get(counts, &characters);
      require(text != nullptr);
    }
    int32_t* const out = room(characters);
    const int64_t runs = decode_runs(reinterpret_cast<const uint8_t*>(text), characters, pixels, out);
    require(runs >= 0);
    return runs;
  }

  // Runs that are at least 0 and add up to the pixels, or none.
  int64_t listed(const Items& values, int64_t pixels) {
    int32_t* const out = room(values.size());
    int64_t sum = 0;
    for (int64_t i = 0; i < values.size(); ++i) {
      const int64_t run = integer_of(values[i]);
      require(run >= 0 && run <= pixels - sum);
      sum += run;
      out[i] = static_cast<int32_t>(run);
    }
    require(values.size() == 0 || sum == pixels);
    return values.size();
  }

  bool single_;
  std::vector<int32_t> counts_, sizes_;
  std::vector<int64_t> offsets_;
};

// Boxes as left, top, width and height: a float64 array [N, 4], or a list of lists of four numbers.
inline std::vector<Box> boxes_of(Object* given) {
  std::vector<Box> boxes;
  if (Items::can_read(given)) {
    const Items rows(given);
    require(rows.size() <= kMostBoxPairs);
    for (int64_t i = 0; i < rows.size(); ++i) {
      const Items row(rows[i]);
      require(row.size() == 4);
      boxes.push_back({real_of(row[0]), real_of(row[1]), real_of(row[2]), real_of(row[3])});
    }
    return boxes;
  }
  const Array array(given);
  require(array.dimensions() == 2 && array.has_type('d') && array.shape(1) == 4 &&
          array.shape(0) <= kMostBoxPairs);
  boxes.resize(static_cast<size_t>(array.shape(0)));
  for (int64_t i = 0; i < array.shape(0); ++i) {
    double sides[4];
    for (int64_t k = 0; k < 4; ++k)
      memcpy(sides + k, array.data() + i * array.stride(0) + k * array.stride(1), sizeof(double));
    boxes[static_cast<size_t>(i)] = {sides[0], sides[1], sides[2], sides[3]};
  }
  return boxes;
}

// One flag for each of `size` objects, from 0 to 255.
inline std::vector<uint8_t> flags_of(Object* given, int64_t size) {
  const Items items(given);
  require(items.size() == size);
  std::vector<uint8_t> flags(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    Object* const item = items[i];
    const int64_t flag = is(item, host.flag) ? host.integer_get(item) : integer_of(item);
    require(flag >= 0 && flag <= UINT8_MAX);
    flags[static_cast<size_t>(i)] = static_cast<uint8_t>(flag);
  }
  return flags;
}

// {"size": [height, width], "counts": the string of the runs}
inline Held mask_dict(int64_t height, int64_t width, const int32_t* runs, int64_t size) {
  const std::unique_ptr<uint8_t[]> text(new uint8_t[static_cast<size_t>(kMostRunCharacters * size + 1)]);
  uint8_t* end = text.get();
  for (int64_t i = 0; i < size; ++i) end = write_run(run_difference(runs, i), end);
  const Held counts(host.bytes_new(reinterpret_cast<const char*>(text.get()), end - text.get()));
  const Held sides(host.list_new(2));
  for (int side = 0; side < 2; ++side) {
    Held length(host.integer_new(side ? width : height));
    if (host.list_set(sides.get(), side, length.give())) throw HostError{};
  }
  Held mask(host.dict_new());
  if (host.dict_set(mask.get(), host.size, sides.get()) ||
      host.dict_set(mask.get(), host.counts, counts.get()))
    throw HostError{};
  return mask;
}

// Dicts one after another: a list, or the only one.
class MaskDicts {
 public:
  MaskDicts(int64_t masks, bool single) : list_(single ? Held() : Held(host.list_new(masks))) {}
  void add(Held mask) {
    if (!list_.get())
      only_ = std::move(mask);
    else if (host.list_set(list_.get(), next_++, mask.give()))
      throw HostError{};
  }
  Object* give() { return list_.get() ? list_.give() : only_.give(); }

 private:
  Held list_, only_;
  int64_t next_ = 0;
};

// Polygons [x0, y0, x1, y1, ...] drawn one by one, a mask each.
class RingObjects {
 public:
  RingObjects(int64_t height, int64_t width) : height_(height), width_(width) {
    require(height >= 0 && width >= 0 && height <= INT32_MAX && width <= INT32_MAX &&
            height * width <= INT32_MAX);
  }
  Held drawn(const Items& ring) {
    require(ring.size() >= 6 && ring.size() % 2 == 0);
    xy_.clear();
    for (int64_t i = 0; i < ring.size(); ++i) xy_.push_back(real_of(ring[i]));
    return drawn();
  }
  Held drawn(const Box& box) {
    const double right = box.x + box.w, bottom = box.y + box.h;
    xy_.assign({box.x, box.y, box.x, bottom, right, bottom, right, box.y});
    return drawn();
  }

 private:
  Held drawn() {
    const int64_t vertices = static_cast<int64_t>(xy_.size() / 2);
    columns_ += vertices * width_;
    require(columns_ <= kMostColumns);
    rasteriser_.begin(static_cast<int32_t>(height_), static_cast<int32_t>(width_));
    require(rasteriser_.add_ring(xy_.data(), vertices) == kGoodRing);
    runs_.clear();
    rasteriser_.finish(runs_);
    return mask_dict(height_, width_, runs_.data(), static_cast<int64_t>(runs_.size()));
  }

  int64_t height_, width_, columns_ = 0;
  std::vector<double> xy_;
  std::vector<int32_t> runs_;
  Rasteriser rasteriser_;
};

}  // namespace valor
