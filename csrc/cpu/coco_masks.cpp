// Masks of COCO records from their JSON text to run lengths: polygons, compressed and uncompressed counts.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "../core/json_skip.h"
#include "../core/platform.h"
#include "../core/runs.h"
#include "guard.h"
#include "pool.h"
#include "rasteriser.h"

namespace valor {
namespace {

using json::Cursor;
using json::Number;

// Why a text is no mask; valor_gpu/inputs/coco_masks.py says it in words.
enum MaskProblem : int32_t {
  kMask = 0,
  kNoMask,       // neither a list nor an object
  kNoPolygon,    // no list of lists of at least 6 numbers
  kOddRing,      // a ring has an odd number of coordinates
  kFarVertex,    // a coordinate is not finite, or too large
  kNoImageSize,  // polygons need the size of the image
  kNoSize,       // no "size" of two integers from 0 on, or too many pixels
  kNoCounts,     // no "counts", or it is neither a string nor a list of integers
  kWrongCounts,  // counts below 0, or that do not add up
  kWrongString,  // see explain_runs
  kWidePolygon,  // edges cross more columns than kMostCrossings
};

// Texts and what belongs to each, one after another.
struct MaskTexts {
  const char* data;
  int64_t size;
  const int64_t* places;  // [n, 2]: where a text begins and how long it is; 0: there is none
  const int32_t* sizes;   // [n, 2]: height and width of the image, -1 where they are not known
  const double* boxes;    // [n, 4]: x, y, width, height, the masks of records without text; or null
  int64_t count;
  int64_t* lengths;     // [n]: out: how many runs; null: runs are not kept
  int32_t* mask_sizes;  // [n, 2]: out: height and width of the mask
  int64_t* areas;       // [n]: out, or null
  double* bounds;       // [n, 4]: out: box around the mask, as pycocotools has it; or null
};

constexpr int64_t kMostPixels = INT32_MAX;
constexpr int64_t kMasksAtATime = 64;

// Reads masks, one after another; keeps its memory for the next.
class MaskReader {
 public:
  // Appends the runs of mask k to `runs` and sets its size.
  MaskProblem read(const MaskTexts& texts, int64_t k, std::vector<int32_t>& runs) {
    const int64_t* const place = texts.places + 2 * k;
    const bool inside =
        place[0] >= 0 && place[1] > 0 && place[1] <= texts.size && place[0] <= texts.size - place[1];
    size_ = texts.mask_sizes + 2 * k;
    size_[0] = texts.sizes[2 * k];
    size_[1] = texts.sizes[2 * k + 1];
    if (!inside) return texts.boxes ? box(texts.boxes + 4 * k, runs) : kNoMask;
    Cursor c{texts.data + place[0], texts.data + place[0] + place[1]};
    if (c.peek() == '[') return polygons(c, runs);
    return c.peek() == '{' ? counts(c, runs) : kNoMask;
  }

 private:
  bool knows_image() const { return size_[0] >= 0 && size_[1] >= 0 && pixels() <= kMostPixels; }
  int64_t pixels() const { return static_cast<int64_t>(size_[0]) * size_[1]; }

  static MaskProblem problem_of(RingProblem ring) {
    return ring == kGoodRing ? kMask : ring == kManyCrossings ? kWidePolygon : kFarVertex;
  }

  MaskProblem box(const double* box, std::vector<int32_t>& runs) {
    if (!knows_image()) return kNoImageSize;
    const double x = box[0], y = box[1], right = x + box[2], bottom = y + box[3];
    const double ring[8] = {x, y, x, bottom, right, bottom, right, y};
    rasteriser_.begin(size_[0], size_[1]);
    const MaskProblem problem = problem_of(rasteriser_.add_ring(ring, 4));
    if (problem == kMask) rasteriser_.finish(runs);
    return problem;
  }

  // Numbers of the list at the cursor; the cursor is left behind it.
  bool take_numbers(Cursor& c) {
    numbers_.clear();
    if (c.peek() != '[') return false;
    ++c.at;
    json::skip_space(c);
    if (c.peek() == ']') return ++c.at, true;
    for (;;) {
      Number number;
      if (!json::take_number(c, number)) return false;
      numbers_.push_back(number.real);
      json::skip_space(c);
      if (c.peek() == ']') return ++c.at, true;
      if (c.peek() != ',') return false;
      ++c.at;
      json::skip_space(c);
    }
  }

  // As in pycocotools, the first ring must have three vertices, and later ones of fewer hold nothing.
  MaskProblem polygons(Cursor c, std::vector<int32_t>& runs) {
    bool is_first = true;
    do {
      ++c.at;
      json::skip_space(c);
      if (!take_numbers(c)) return kNoPolygon;
      const int64_t size = static_cast<int64_t>(numbers_.size());
      if (is_first) {
        if (size < 2 * kMinVertices - 1) return kNoPolygon;
        if (!knows_image()) return kNoImageSize;
        rasteriser_.begin(size_[0], size_[1]);
        is_first = false;
      }
      if (size % 2) return kOddRing;
      if (size >= 2 * kMinVertices) {
        const MaskProblem problem = problem_of(rasteriser_.add_ring(numbers_.data(), size / 2));
        if (problem != kMask) return problem;
      }
      json::skip_space(c);
    } while (c.peek() == ',');
    if (c.peek() != ']') return kNoPolygon;
    rasteriser_.finish(runs);
    return kMask;
  }

  // The characters of the string at the cursor without quotes and escapes, [first, second); what stands for
  // no ASCII character becomes a byte that no string of counts has.
  bool take_string(Cursor& c, const char*& first, const char*& second) {
    const char* const begin = c.at + 1;
    ++c.at;
    const char* const plain = json::find_special(begin, c.end);
    if (plain < c.end && *plain == '"') {
      first = begin, second = plain;
      c.at = plain + 1;
      return true;
    }
    if (!json::skip_string(c)) return false;
    string_.clear();
    for (const char *at = begin, *const stop = c.at - 1; at < stop; ++at) {
      const void* const found = memchr(at, '\\', static_cast<size_t>(stop - at));
      const char* const escape = found ? static_cast<const char*>(found) : stop;
      string_.append(at, escape);
      if (!found) break;
      at = escape + 1;
      char letter = *at;
      if (letter == 'u') {
        unsigned code = 0;
        std::from_chars(at + 1, at + 5, code, 16);
        letter = code < 128 ? static_cast<char>(code) : '\0';
        at += 4;
      } else if (letter != '\\' && letter != '/' && letter != '"') {
        letter = '\0';
      }
      string_.push_back(letter);
    }
    first = string_.data(), second = first + string_.size();
    return true;
  }

  bool take_size(Cursor& c) {
    if (!take_numbers(c) || numbers_.size() != 2) return false;
    for (int i = 0; i < 2; ++i) {
      if (!(numbers_[i] >= 0 && numbers_[i] <= kMostPixels)) return false;
      size_[i] = static_cast<int32_t>(numbers_[i]);
      if (size_[i] != numbers_[i]) return false;
    }
    return pixels() <= kMostPixels;
  }

  // Finds "size" and "counts", of equal keys the last.
  MaskProblem counts(Cursor c, std::vector<int32_t>& runs) {
    bool has_size = false;
    const char* found = nullptr;
    ++c.at;
    json::skip_space(c);
    while (c.peek() == '"') {
      const char *key, *end;
      if (!take_string(c, key, end)) return kNoMask;
      const auto is = [&](const char* name, int64_t size) {
        return end - key == size && !memcmp(key, name, size);
      };
      const bool size = is("size", 4), count = is("counts", 6);
      json::skip_space(c);
      if (c.peek() != ':') return kNoMask;
      ++c.at;
      json::skip_space(c);
      if (count) found = c.at;
      if (size) {
        if (!take_size(c)) return kNoSize;
        has_size = true;
      } else if (!json::skip_value(c)) {
        return kNoMask;
      }
      json::skip_space(c);
      if (c.peek() != ',') break;
      ++c.at;
      json::skip_space(c);
    }
    if (c.peek() != '}') return kNoMask;
    if (!has_size) return kNoSize;
    if (!found) return kNoCounts;
    Cursor value{found, c.end};
    if (value.peek() == '[') return listed(value, runs);
    return value.peek() == '"' ? compressed(value, runs) : kNoCounts;
  }

  MaskProblem compressed(Cursor c, std::vector<int32_t>& runs) {
    const char *first, *second;
    if (!take_string(c, first, second)) return kNoCounts;
    const size_t before = runs.size();
    const int64_t room = second - first;
    runs.resize(before + static_cast<size_t>(room));
    const int64_t found =
        decode_runs(reinterpret_cast<const uint8_t*>(first), room, pixels(), runs.data() + before);
    runs.resize(before + static_cast<size_t>(found < 0 ? 0 : found));
    return found < 0 ? kWrongString : kMask;
  }

  MaskProblem listed(Cursor c, std::vector<int32_t>& runs) {
    if (!take_numbers(c)) return kNoCounts;
    int64_t sum = 0;
    for (const double number : numbers_) {
      if (!(number >= 0 && number <= kMostPixels)) return kWrongCounts;
      const int32_t run = static_cast<int32_t>(number);
      if (run != number) return kNoCounts;
      sum += run;
      runs.push_back(run);
    }
    return sum == pixels() || numbers_.empty() ? kMask : kWrongCounts;
  }

  int32_t* size_ = nullptr;
  Rasteriser rasteriser_;
  std::vector<double> numbers_;
  std::string string_;
};

void measure(const MaskTexts& texts, int64_t k, const int32_t* counts, int64_t runs) {
  RunMeasure measure(texts.mask_sizes[2 * k]);
  for_each_run(counts, runs, [&](uint32_t begin, uint32_t end) { measure.add(begin, end); });
  if (texts.areas) texts.areas[k] = measure.area();
  if (!texts.bounds) return;
  const RunBox box = measure.box();
  double* const out = texts.bounds + 4 * k;
  out[0] = box.left, out[1] = box.top, out[2] = box.right - box.left, out[3] = box.bottom - box.top;
}

// Most often enough: a run takes a character and more.
size_t expected_runs(const MaskTexts& texts, int64_t begin, int64_t end) {
  constexpr int64_t kMost = 1 << 18;
  int64_t bytes = 0;
  for (int64_t k = begin; k < end; ++k) bytes += std::clamp<int64_t>(texts.places[2 * k + 1], 0, kMost);
  return static_cast<size_t>(std::min(bytes, kMost));
}

// Runs of up to kMasksAtATime masks each.
using Blocks = std::vector<std::vector<int32_t>>;

}  // namespace
}  // namespace valor

using namespace valor;

// Reads masks. out: a handle to the runs for valor_coco_runs_cpu, or 0; the first bad mask, or -1; a
// MaskProblem.
VALOR_API int32_t valor_coco_masks_cpu(const MaskTexts* texts, int64_t threads, int64_t* out) {
  return guarded([&] {
    const int64_t count = texts->count;
    auto blocks = std::make_unique<Blocks>((count + kMasksAtATime - 1) / kMasksAtATime);
    std::atomic<int64_t> first{count};
    std::vector<int32_t> problems(blocks->size());
    auto work = [&](int64_t from, int64_t to) {
      MaskReader reader;
      for (int64_t b = from; b < to; ++b) {
        const int64_t end = std::min((b + 1) * kMasksAtATime, count);
        std::vector<int32_t>& runs = (*blocks)[b];
        runs.reserve(expected_runs(*texts, b * kMasksAtATime, end));
        for (int64_t k = b * kMasksAtATime; k < end; ++k) {
          const size_t before = runs.size();
          const MaskProblem problem = reader.read(*texts, k, runs);
          if (problem != kMask) {
            problems[b] = problem;
            for (int64_t seen = first; k < seen && !first.compare_exchange_weak(seen, k);) {
            }
            return;
          }
          const int64_t size = static_cast<int64_t>(runs.size() - before);
          if (texts->areas || texts->bounds) measure(*texts, k, runs.data() + before, size);
          if (texts->lengths)
            texts->lengths[k] = size;
          else
            runs.clear();
        }
        if (!texts->lengths) std::vector<int32_t>().swap(runs);
      }
    };
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(blocks->size()) / (4 * threads));
    parallel_for(static_cast<int64_t>(blocks->size()), grain, static_cast<int>(threads), work);
    const bool good = first == count;
    out[1] = good ? -1 : first.load();
    out[2] = good ? 0 : problems[first / kMasksAtATime];
    out[0] = good && texts->lengths ? reinterpret_cast<int64_t>(blocks.release()) : 0;
  });
}

// Copies the runs behind a handle, all masks one after another, unless `counts` is null, and gives them up.
VALOR_API int32_t valor_coco_runs_cpu(int64_t handle, int32_t* counts, int64_t threads) {
  return guarded([&] {
    std::unique_ptr<Blocks> blocks(reinterpret_cast<Blocks*>(handle));
    if (!counts) return;
    std::vector<int32_t*> starts;
    for (const std::vector<int32_t>& block : *blocks) starts.push_back(counts), counts += block.size();
    auto work = [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        std::copy((*blocks)[b].begin(), (*blocks)[b].end(), starts[b]);
        std::vector<int32_t>().swap((*blocks)[b]);
      }
    };
    parallel_for(static_cast<int64_t>(blocks->size()), 4, static_cast<int>(threads), work);
  });
}
