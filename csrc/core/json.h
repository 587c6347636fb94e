// Scanner primitives for JSON text that lies in memory: space, strings, numbers, and values to step over.
// What Python's json module rejects is rejected here, in values that are stepped over too, and numbers come
// out bit for bit as it reads them. Not limited here: how deep values are nested and how long integers are.
#pragma once
#include <stdint.h>
#include <string.h>

#include <charconv>
#include <limits>
#include <system_error>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the eight-byte steps below read text as little-endian words"
#endif

namespace valor {
namespace json {

// What the text should have held where scanning stopped; valor_gpu/inputs/_coco_scan.py words these numbers.
enum Need : int32_t {
  kNothing = 0,
  kValue,
  kKey,
  kColon,
  kCommaOrBrace,
  kCommaOrBracket,
  kQuote,
  kEscape,
  kNoControl,
  kUtf8,
};

struct Cursor {
  const char* at;
  const char* end;
  int32_t need = kNothing;
  int64_t deepest = 0;  // nested arrays and objects of the deepest value that was stepped over

  // '\0' stands for the end of the text: no JSON token begins with it.
  char peek() const { return at < end ? *at : '\0'; }
  int64_t left() const { return end - at; }
  bool fail(int32_t what) {
    need = what;
    return false;
  }
};

struct Number {
  double real;
  int64_t whole;         // meaningful only when is_whole
  bool is_whole;         // written without fraction and exponent, and within 64 bits
  bool is_long = false;  // written so, and beyond 64 bits
};

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline void skip_space(Cursor& c) {
  while (c.at < c.end && is_space(*c.at)) ++c.at;
}

inline uint64_t load_word(const char* at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

constexpr uint64_t repeat_byte(uint8_t byte) { return 0x0101010101010101ull * byte; }

// The top bit of the lowest zero byte is set; bytes above the lowest zero may be flagged wrongly.
inline uint64_t zero_bytes(uint64_t word) { return (word - repeat_byte(1)) & ~word & repeat_byte(0x80); }

template <size_t N>
inline bool take_word(Cursor& c, const char (&word)[N]) {
  if (c.left() < static_cast<int64_t>(N - 1) || memcmp(c.at, word, N - 1) != 0) return false;
  c.at += N - 1;
  return true;
}

constexpr uint64_t kPowersOfTen[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
constexpr double kExactPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                        1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                        1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// The top bit of every byte that is not a decimal digit, given the bytes xor '0'.
inline uint64_t other_than_digits(uint64_t digits) {
  return (((digits & repeat_byte(0x7f)) + repeat_byte(0x76)) | digits) & repeat_byte(0x80);
}

inline int first_marked(uint64_t marks) { return __builtin_ctzll(marks) >> 3; }

// The number that the lowest `count` bytes (1 to 8, digits xor '0') spell: pairs, then fours, then all eight
// (D. Lemire, "Quickly parsing eight digits", 2018).
inline uint32_t spelled(uint64_t digits, int count) {
  uint64_t packed = digits << (8 * (8 - count));
  packed = packed * 10 + (packed >> 8);
  return static_cast<uint32_t>(((packed & 0x000000ff000000ffull) * 0x000f424000000064ull +
                                ((packed >> 16) & 0x000000ff000000ffull) * 0x0000271000000001ull) >>
                               32);
}

// Appends the digits at `at` to `value`, eight at a time without a branch per digit; returns their end.
// The value is right as long as it has at most 19 digits.
inline const char* take_digits(const char* at, const char* end, uint64_t& value) {
  while (end - at >= 8) {
    const uint64_t digits = load_word(at) ^ repeat_byte('0');
    const uint64_t other = other_than_digits(digits);
    const int count = other ? first_marked(other) : 8;
    if (count == 0) return at;
    value = value * kPowersOfTen[count] + spelled(digits, count);
    at += count;
    if (count < 8) return at;
  }
  while (at < end && static_cast<uint8_t>(*at - '0') < 10)
    value = value * 10 + static_cast<uint8_t>(*at++ - '0');
  return at;
}

// Unsigned numbers of at most 7 digits before the point and 7 after it, without an exponent: nearly all that
// a file of boxes holds. False, with the cursor unmoved, for any other token.
inline bool take_short_number(Cursor& c, Number& out) {
  if (c.left() < 16) return false;
  const uint64_t digits = load_word(c.at) ^ repeat_byte('0');
  const uint64_t marks = other_than_digits(digits), later = marks & (marks - 1);
  const int whole = marks ? first_marked(marks) : 0;
  if (whole == 0 || ((digits & 0xff) == 0 && whole > 1)) return false;
  const char* const point = c.at + whole;
  const char* end = point;
  out.is_whole = *point != '.';
  if (out.is_whole) {
    out.whole = spelled(digits, whole);
    out.real = static_cast<double>(out.whole);
  } else if (later != 0) {  // the whole token lies in one word: drop the point from it
    const int size = first_marked(later), fraction = size - whole - 1;
    if (fraction == 0) return false;
    const uint64_t before = (1ull << (8 * whole)) - 1;
    out.real = spelled((digits & before) | ((digits >> 8) & ~before), size - 1) / kExactPowersOfTen[fraction];
    end = c.at + size;
  } else {
    const uint64_t after = load_word(point + 1) ^ repeat_byte('0');
    const uint64_t rest = other_than_digits(after);
    const int fraction = rest ? first_marked(rest) : 0;
    if (fraction == 0) return false;
    const uint64_t joined = spelled(digits, whole) * kPowersOfTen[fraction] + spelled(after, fraction);
    out.real = static_cast<double>(joined) / kExactPowersOfTen[fraction];
    end = point + 1 + fraction;
  }
  if ((*end | 0x20) == 'e') return false;
  c.at = end;
  return true;
}

// The power of ten just above a decimal token's size: 3 for 123.4, -2 for 0.00123; `exponent` is the written
// one.
inline int64_t decimal_size(const char* at, const char* end, int64_t exponent) {
  const auto is_leading = [](char c) { return c == '-' || c == '0' || c == '.'; };
  const void* const point = memchr(at, '.', static_cast<size_t>(end - at));
  const char* whole_end = point ? static_cast<const char*>(point) : at + (*at == '-');
  while (whole_end < end && !point && static_cast<uint8_t>(*whole_end - '0') < 10) ++whole_end;
  while (at < end && is_leading(*at)) ++at;
  return whole_end - at + (at > whole_end) + exponent;
}

// A token of JSON's number grammar to the nearest double; beyond the range it becomes infinite or zero.
inline double round_decimal(const char* begin, const char* end, int64_t exponent) {
  double value = 0.0;
  if (std::from_chars(begin, end, value).ec == std::errc::result_out_of_range) {
    value = decimal_size(begin, end, exponent) > 0 ? std::numeric_limits<double>::infinity() : 0.0;
    if (*begin == '-') value = -value;
  }
  return value;
}

// The exponent at the cursor (which stands on e or E), or 0 with the cursor unmoved when no digit follows.
inline int64_t take_exponent(Cursor& c) {
  const char* at = c.at + 1;
  const bool negative = at < c.end && *at == '-';
  if (at < c.end && (*at == '-' || *at == '+')) ++at;
  const char* const first = at;
  while (at < c.end && *at == '0') ++at;
  uint64_t size = 0;
  const char* const significant = at;
  at = take_digits(at, c.end, size);
  if (at == first) return 0;
  if (at - significant > 18) size = 1000000000000000000ull;  // far beyond any double either way
  c.at = at;
  return negative ? -static_cast<int64_t>(size) : static_cast<int64_t>(size);
}

inline bool take_constant(Cursor& c, Number& out) {
  if (take_word(c, "NaN")) {
    out.real = std::numeric_limits<double>::quiet_NaN();
  } else if (take_word(c, "Infinity")) {
    out.real = std::numeric_limits<double>::infinity();
  } else if (take_word(c, "-Infinity")) {
    out.real = -std::numeric_limits<double>::infinity();
  } else {
    return c.fail(kValue);
  }
  return true;
}

// Reads a number as json.loads does, the constants NaN, Infinity and -Infinity included.
inline bool take_number(Cursor& c, Number& out) {
  if (take_short_number(c, out)) return true;
  out.is_whole = false;
  const char* const begin = c.at;
  const bool negative = c.peek() == '-';
  const char* const first = begin + negative;
  uint64_t digits = 0;
  const char* at = take_digits(first, c.end, digits);
  if (at == first) return take_constant(c, out);
  if (*first == '0' && at > first + 1) {  // JSON knows no leading zeros: the number ends here
    at = first + 1;
    digits = 0;
  }
  int64_t shown = at - first, exponent = 0, fraction = 0;
  const char* const whole_end = at;
  if (c.end - at >= 2 && *at == '.' && static_cast<uint8_t>(at[1] - '0') < 10) {
    const char* const point = at + 1;
    at = take_digits(point, c.end, digits);
    fraction = at - point;
    shown += fraction;
  }
  c.at = at;
  if (at < c.end && (*at | 0x20) == 'e') exponent = take_exponent(c);
  if (c.at == whole_end && shown <= 19 && digits <= (1ull << 63) - !negative) {
    out.whole = static_cast<int64_t>(negative ? 0 - digits : digits);
    out.is_whole = true;
    out.real = static_cast<double>(out.whole);  // -0 is the integer 0 there
    return true;
  }
  out.is_long = c.at == whole_end;
  const int64_t scale = exponent - fraction;
  if (shown <= 19 && digits <= (1ull << 53) && scale >= -22 && scale <= 22) {
    // Both operands are exact, so one rounding gives the nearest double (Clinger 1990).
    const double size = static_cast<double>(digits);
    const double value = scale < 0 ? size / kExactPowersOfTen[-scale] : size * kExactPowersOfTen[scale];
    out.real = negative ? -value : value;
  } else {
    out.real = round_decimal(begin, c.at, exponent);
  }
  return true;
}

// The number as a 64-bit integer; false when it has a fraction, is not finite or does not fit.
inline bool as_integer(const Number& number, int64_t& out) {
  if (number.is_whole) {
    out = number.whole;
    return true;
  }
  if (number.is_long || !(number.real >= -9223372036854775808.0 && number.real < 9223372036854775808.0))
    return false;
  out = static_cast<int64_t>(number.real);
  return static_cast<double>(out) == number.real;
}

}  // namespace json
}  // namespace valor
