// One record of a COCO array (annotation, result, image, category) from JSON text to a row, and rows to
// columns.
#pragma once
#include <algorithm>

#include "json_skip.h"

namespace valor {
namespace coco {

using json::Cursor;
using json::Number;

// The order is that of FIELDS in valor_gpu/inputs/_coco_records.py; bit f of a row's `present` stands for
// field f.
enum Field : int32_t {
  kId,
  kImageId,
  kCategoryId,
  kBbox,
  kArea,
  kScore,
  kIsCrowd,
  kIgnore,
  kSegmentation,
  kKeypoints,
  kCaption,
  kNumKeypoints,
  kHeight,
  kWidth,
  kFieldCount,
  kUnknown = kFieldCount,
};

// Added to a field (or to kRecord) in place of a json::Need: the value there has the wrong type.
constexpr int32_t kWrongType = 16;
constexpr int32_t kRecord = kFieldCount;

constexpr int64_t kNameSizes[kFieldCount] = {2, 8, 11, 4, 4, 5, 7, 6, 12, 9, 7, 13, 6, 5};
constexpr int64_t kLongestName = 13;

// Column c of every table is an array of kWidths[c] bytes per row; a null pointer is a column nobody wants.
enum Column {
  kIds,
  kImageIds,
  kCategoryIds,
  kBoxes,
  kAreas,
  kScores,
  kIsCrowds,
  kIgnores,
  kPresents,
  kSegmentationTexts,  // where the text begins and how long it is; not set where the field is absent
  kKeypointTexts,
  kNumKeypointCounts,
  kHeights,
  kWidthsOfImages,
  kColumnCount
};
constexpr int64_t kWidths[kColumnCount] = {8, 8, 8, 32, 8, 8, 1, 1, 2, 16, 16, 8, 8, 8};

// Sizes need no bits in `present`: NaN tells that there is none.
constexpr uint16_t kShownFields = (1u << kNumKeypoints) - 1;
// Stands for a box of 5 or 8 numbers, a rotated one. Such a row has no kBbox; in its box column stand the
// place and the size of the text, as in the columns of texts but as doubles, since other files should pay for
// no column.
constexpr uint16_t kRotated = 1u << 15;
constexpr uint16_t kTextFields = 1u << kSegmentation | 1u << kKeypoints | kRotated;
// Bit kTextIds + f: field f, one of kId, kImageId and kCategoryId, is a text. In its column stands where the
// text begins, its opening quote. These bits of `present` are those of sizes, which nobody sees.
constexpr int32_t kTextIds = kNumKeypoints;

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

struct Row {
  int64_t whole[3] = {0, 0, 0};  // id, image_id, category_id
  double box[4] = {kAbsent, kAbsent, kAbsent, kAbsent};
  double area = kAbsent, score = kAbsent;
  uint8_t flags[2] = {0, 0};  // iscrowd, ignore
  uint16_t present = 0;
  uint8_t text_ids = 0;     // bit f: field f is a text, whose address is in `whole`
  double sizes[3];          // num_keypoints, height, width: set where present, NaN for what is no number
  const char* texts[3][2];  // segmentation, keypoints and rotated box, begin and end: set where present

  bool has(int32_t field) const { return (present >> field) & 1; }
};

class Table {
 public:
  // text: what places of texts count from.
  Table(void* const* columns, const char* text)
      : columns_(columns),
        text_(text),
        has_sizes_(columns[kNumKeypointCounts] || columns[kHeights] || columns[kWidthsOfImages]) {}

  void write(int64_t row, const Row& from) const {
    for (int c = kIds; c <= kCategoryIds; ++c) put(c, row, &from.whole[c]);
    if (from.text_ids) put_text_ids(row, from);
    put(kBoxes, row, from.box);
    put(kAreas, row, &from.area);
    put(kScores, row, &from.score);
    put(kIsCrowds, row, &from.flags[0]);
    put(kIgnores, row, &from.flags[1]);
    const uint16_t present =
        static_cast<uint16_t>((from.present & (kShownFields | kRotated)) | from.text_ids << kTextIds);
    put(kPresents, row, &present);
    if (from.present & kTextFields) put_texts(row, from);
    if (has_sizes_) put_sizes(row, from);
  }

  void move(int64_t to, int64_t from, int64_t rows) const {
    for (int c = 0; c < kColumnCount; ++c) {
      if (columns_[c]) memmove(cell(c, to), cell(c, from), static_cast<size_t>(rows * kWidths[c]));
    }
  }

 private:
  char* cell(int column, int64_t row) const {
    return static_cast<char*>(columns_[column]) + row * kWidths[column];
  }
  void put(int column, int64_t row, const void* from) const {
    if (columns_[column]) memcpy(cell(column, row), from, static_cast<size_t>(kWidths[column]));
  }
  void put_text_ids(int64_t row, const Row& from) const {
    for (int c = kIds; c <= kCategoryIds; ++c) {
      const int64_t place = reinterpret_cast<const char*>(from.whole[c]) - text_;
      if ((from.text_ids >> c) & 1) put(c, row, &place);
    }
  }
  void put_texts(int64_t row, const Row& from) const {
    for (int t = 0; t < 2; ++t) {
      if (!from.has(kSegmentation + t)) continue;
      const int64_t place[2] = {from.texts[t][0] - text_, from.texts[t][1] - from.texts[t][0]};
      put(kSegmentationTexts + t, row, place);
    }
    if (from.present & kRotated) {
      const char* const* text = from.texts[2];
      const double place[4] = {static_cast<double>(text[0] - text_), static_cast<double>(text[1] - text[0]),
                               kAbsent, kAbsent};
      put(kBoxes, row, place);
    }
  }
  void put_sizes(int64_t row, const Row& from) const {
    for (int c = 0; c < 3; ++c)
      put(kNumKeypointCounts + c, row, from.has(kNumKeypoints + c) ? &from.sizes[c] : &kAbsent);
  }
  void* const* columns_;
  const char* text_;
  bool has_sizes_;
};

// The field whose name, closing quote included, stands at `key`, where kLongestName + 1 bytes can be read.
inline int32_t match_field(const char* key) {
  const auto is = [key](const auto& name) { return memcmp(key, name, sizeof(name) - 1) == 0; };
  switch (key[0]) {
    case 'i':
      if (is("image_id\"")) return kImageId;
      if (is("id\"")) return kId;
      if (is("iscrowd\"")) return kIsCrowd;
      return is("ignore\"") ? kIgnore : kUnknown;
    case 'b':
      return is("bbox\"") ? kBbox : kUnknown;
    case 'c':
      if (is("category_id\"")) return kCategoryId;
      return is("caption\"") ? kCaption : kUnknown;
    case 's':
      if (is("score\"")) return kScore;
      return is("segmentation\"") ? kSegmentation : kUnknown;
    case 'a':
      return is("area\"") ? kArea : kUnknown;
    case 'k':
      return is("keypoints\"") ? kKeypoints : kUnknown;
    case 'n':
      return is("num_keypoints\"") ? kNumKeypoints : kUnknown;
    case 'h':
      return is("height\"") ? kHeight : kUnknown;
    case 'w':
      return is("width\"") ? kWidth : kUnknown;
    default:
      return kUnknown;
  }
}

// As match_field, for a key that may hold escapes or end where the text does.
int32_t match_written(const char* at, const char* end) {
  char plain[kLongestName + 4] = {};
  int64_t size = 0;
  while (at < end) {
    unsigned letter = static_cast<uint8_t>(*at++);
    if (letter == '\\') {
      // No field's name holds a character that a short escape stands for.
      if (end - at < 5 || *at != 'u' || std::from_chars(at + 1, at + 5, letter, 16).ptr != at + 5)
        return kUnknown;
      at += 5;
    }
    if (letter >= 128 || size == kLongestName) return kUnknown;
    plain[size++] = static_cast<char>(letter);
  }
  plain[size] = '"';
  const int32_t field = match_field(plain);
  return field != kUnknown && kNameSizes[field] == size ? field : kUnknown;
}

// Reads a key whose opening quote is behind the cursor.
inline bool take_field(Cursor& c, int32_t& field) {
  if (c.left() > kLongestName) {
    field = match_field(c.at);
    if (field != kUnknown) {
      c.at += kNameSizes[field] + 1;
      return true;
    }
  }
  const char* const first = c.at;
  if (!json::skip_string(c)) return false;
  field = match_written(first, c.at - 1);
  return true;
}

// Four numbers, or none (`[]`): `count` tells.
inline bool take_box(Cursor& c, double* box, int& count) {
  if (c.peek() != '[') return false;
  count = 0;
  do {
    ++c.at;
    json::skip_space(c);
    Number number;
    if (count == 0 && c.peek() == ']') break;
    if (count == 4 || !json::take_number(c, number)) return false;
    box[count++] = number.real;
    json::skip_space(c);
  } while (c.peek() == ',');
  return c.peek() == ']' && (count == 0 || count == 4) && ++c.at;
}

inline bool take_flag(Cursor& c, uint8_t& flag) {
  Number number{0.0, 0, false};
  if (json::take_word(c, "true")) {
    number.real = 1.0;
  } else if (!json::take_word(c, "false") && !json::take_number(c, number)) {
    return false;
  }
  flag = number.real != 0.0;
  return true;
}

inline bool take_real(Cursor& c, double& out) {
  Number number;
  if (!json::take_number(c, number)) return false;
  out = number.real;
  return true;
}

// A number, or NaN for any other value.
inline bool take_real_or_skip(Cursor& c, double& out) {
  const char* const value = c.at;
  if (take_real(c, out)) return true;
  out = kAbsent;
  c.at = value;
  c.need = json::kNothing;
  return json::skip_value(c);
}

// Values that records of boxes mostly lack: out of the way of the others.
__attribute__((noinline)) inline bool take_rare_value(Cursor& c, int32_t field, Row& row) {
  if (field >= kNumKeypoints) return take_real_or_skip(c, row.sizes[field - kNumKeypoints]);
  const char* const begin = c.at;
  const bool good = json::skip_value(c);
  if (field != kCaption) {
    row.texts[field - kSegmentation][0] = begin;
    row.texts[field - kSegmentation][1] = c.at;
  }
  return good;
}

// Reads the value of `field`; `present` becomes false for null and for an empty box.
inline bool take_value(Cursor& c, int32_t field, Row& row, bool& present) {
  Number number;
  int count = 4;
  bool good = true;
  present = true;
  switch (field) {
    case kId:
    case kImageId:
    case kCategoryId:
      row.text_ids &= static_cast<uint8_t>(~(1u << field));
      return json::take_number(c, number) && json::as_integer(number, row.whole[field]);
    case kBbox:
      good = take_box(c, row.box, count);
      present = count != 0;
      return good;
    case kArea:
      return take_real(c, row.area);
    case kScore:
      return take_real(c, row.score);
    case kIsCrowd:
    case kIgnore:
      return take_flag(c, row.flags[field - kIsCrowd]);
    default:
      return take_rare_value(c, field, row);
  }
}

// Undoes what an earlier member of the same name has set.
inline void clear_field(int32_t field, Row& row) {
  if (field <= kCategoryId) row.whole[field] = 0;
  row.text_ids &= static_cast<uint8_t>(~(1u << field));
  if (field == kBbox) std::fill(row.box, row.box + 4, kAbsent);
  if (field == kArea) row.area = kAbsent;
  if (field == kScore) row.score = kAbsent;
  if (field == kIsCrowd || field == kIgnore) row.flags[field - kIsCrowd] = 0;
}

// Notes where a list of 5 or 8 numbers stands. False, with the cursor anywhere, for anything else.
__attribute__((noinline)) inline bool take_rotated(Cursor& c, Row& row) {
  const char* const begin = c.at;
  int count = 0;
  if (c.peek() != '[') return false;
  do {
    ++c.at;
    json::skip_space(c);
    Number number;
    if (count == 8 || !json::take_number(c, number)) return false;
    ++count;
    json::skip_space(c);
  } while (c.peek() == ',');
  if (c.peek() != ']' || (count != 5 && count != 8)) return false;
  ++c.at;
  row.texts[2][0] = begin;
  row.texts[2][1] = c.at;
  return true;
}

// Notes where an id that is a text stands.
inline void note_text_id(const char* begin, int32_t field, Row& row) {
  row.whole[field] = static_cast<int64_t>(reinterpret_cast<intptr_t>(begin));
  row.text_ids = static_cast<uint8_t>(row.text_ids | 1u << field);
  row.present = static_cast<uint16_t>(row.present | 1u << field);
}

// Sets one field of the row from the value at the cursor; of equal keys the last one counts, as in Python.
inline bool set_field(Cursor& c, int32_t field, Row& row) {
  const char* const value = c.at;
  bool present = false;
  if (!json::take_word(c, "null") && !take_value(c, field, row, present)) {
    c.at = value;
    if (field == kBbox && take_rotated(c, row)) {
      clear_field(kBbox, row);
      row.present = static_cast<uint16_t>((row.present & ~(1u << kBbox)) | kRotated);
      return true;
    }
    c.at = value;
    c.need = json::kNothing;
    if (!json::skip_value(c)) return false;
    if (field <= kCategoryId && *value == '"') return note_text_id(value, field, row), true;
    c.at = value;
    return c.fail(kWrongType + field);
  }
  const uint16_t bit = static_cast<uint16_t>(1u << field);
  if (!present && (row.present & bit)) clear_field(field, row);
  const uint16_t kept = static_cast<uint16_t>(row.present & ~(field == kBbox ? bit | kRotated : bit));
  row.present = static_cast<uint16_t>(present ? kept | bit : kept);
  return true;
}

// Reads one element of the array; fields without a bit in `wanted` are stepped over.
bool take_record(Cursor& c, uint32_t wanted, Row& row) {
  const char* const record = c.at;
  if (c.peek() != '{') {
    if (!json::skip_value(c)) return false;
    c.at = record;
    return c.fail(kWrongType + kRecord);
  }
  ++c.at;
  json::skip_space(c);
  if (c.peek() == '}') return ++c.at, true;
  for (;;) {
    int32_t field = kUnknown;
    if (c.peek() != '"') return c.fail(json::kKey);
    ++c.at;
    if (!take_field(c, field)) return false;
    json::skip_space(c);
    if (c.peek() != ':') return c.fail(json::kColon);
    ++c.at;
    json::skip_space(c);
    const bool known = (wanted >> field) & 1u;
    if (!(known ? set_field(c, field, row) : json::skip_value(c))) return false;
    json::skip_space(c);
    if (c.peek() == '}') return ++c.at, true;
    if (c.peek() != ',') return c.fail(json::kCommaOrBrace);
    ++c.at;
    json::skip_space(c);
  }
}

}  // namespace coco
}  // namespace valor
