// JSON values to step over. What Python's json module rejects is rejected here too. Not limited: how deep
// values are nested and how long integers are.
#pragma once
#include <algorithm>
#include <string>

#include "json.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace valor {
namespace json {

// The next byte of a string that is more than itself: a quote, a backslash, a control character or a part of
// a character beyond ASCII; or the end.
inline const char* find_special(const char* at, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), escape = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
  const auto found_at = [&](const char* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i other =
        _mm_cmplt_epi8(bytes, space);  // as signed bytes: control characters and beyond ASCII
    const __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, escape));
    return _mm_or_si128(ends, other);
  };
  for (; end - at >= 32; at += 32) {
    const __m128i first = found_at(at), second = found_at(at + 16);
    if (_mm_movemask_epi8(_mm_or_si128(first, second)) == 0) continue;
    const uint32_t found = static_cast<uint32_t>(_mm_movemask_epi8(first)) |
                           static_cast<uint32_t>(_mm_movemask_epi8(second)) << 16;
    return at + __builtin_ctz(found);
  }
#endif
  for (; end - at >= 8; at += 8) {
    const uint64_t word = load_word(at);
    const uint64_t control = (word - repeat_byte(0x20)) & ~word;
    const uint64_t found = zero_bytes(word ^ repeat_byte('"')) | zero_bytes(word ^ repeat_byte('\\')) |
                           ((control | word) & repeat_byte(0x80));
    if (found) return at + (__builtin_ctzll(found) >> 3);
  }
  while (at < end && *at != '"' && *at != '\\' && static_cast<uint8_t>(*at - 0x20) < 0x60) ++at;
  return at;
}

inline bool is_hexadecimal(char c) {
  return static_cast<uint8_t>(c - '0') < 10 || static_cast<uint8_t>((c | 0x20) - 'a') < 6;
}

// Whether a backslash and this make an escape.
inline bool is_escaped(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      return true;
    default:
      return false;
  }
}

// Steps over an escape, whose backslash is at the cursor.
inline bool skip_escape(Cursor& c) {
  const char* const at = c.at + 1;
  if (at < c.end && is_escaped(*at)) return c.at = at + 1, true;
  if (c.end - at < 5 || *at != 'u') return c.fail(kEscape);
  for (int i = 1; i < 5; ++i) {
    if (!is_hexadecimal(at[i])) return c.fail(kEscape);
  }
  c.at = at + 5;
  return true;
}

// Steps over a character of two to four bytes: no overlong form, no surrogate, nothing beyond U+10FFFF (the
// Unicode Standard, table 3-7).
inline bool skip_wide(Cursor& c) {
  const auto byte = [&c](int64_t i) { return i < c.left() ? static_cast<uint8_t>(c.at[i]) : uint8_t{0}; };
  const uint8_t first = byte(0), second = byte(1);
  const int size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  const uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  bool good = size > 0 && second >= least && second <= most;
  for (int i = 2; i < size; ++i) good = good && (byte(i) & 0xc0) == 0x80;
  if (!good) return c.fail(kUtf8);
  c.at += size;
  return true;
}

// Steps over a string whose opening quote is behind the cursor.
inline bool skip_string(Cursor& c) {
  for (;;) {
    c.at = find_special(c.at, c.end);
    if (c.at == c.end) return c.fail(kQuote);
    if (*c.at == '"') return ++c.at, true;
    if (*c.at == '\\') {
      if (!skip_escape(c)) return false;
    } else if (static_cast<uint8_t>(*c.at) < 0x20) {
      return c.fail(kNoControl);
    } else if (!skip_wide(c)) {
      return false;
    }
  }
}

// The end of the digits at `at`.
inline const char* skip_digits(const char* at, const char* end) {
  for (; end - at >= 8; at += 8) {
    const uint64_t other = other_than_digits(load_word(at) ^ repeat_byte('0'));
    if (other) return at + first_marked(other);
  }
  while (at < end && static_cast<uint8_t>(*at - '0') < 10) ++at;
  return at;
}

// Steps over a number, or fails at one; take_number without the value.
inline bool skip_number(Cursor& c) {
  const char* const first = c.at + (c.peek() == '-');
  const char* at = skip_digits(first, c.end);
  if (at == first) {
    Number constant;
    return take_constant(c, constant);
  }
  if (*first == '0') at = first + 1;  // JSON knows no leading zeros: the number ends here
  if (at < c.end && *at == '.') {
    const char* const fraction = skip_digits(at + 1, c.end);
    if (fraction > at + 1) at = fraction;
  }
  c.at = at;
  if (at < c.end && (*at | 0x20) == 'e') take_exponent(c);
  return true;
}

// Steps over an unsigned number with a fraction that ends inside eight bytes, such as 412.55: nearly all that
// polygons hold. False, with the cursor unmoved, for any other token.
inline bool skip_short_number(Cursor& c) {
  if (c.left() < 8) return false;
  const uint64_t digits = load_word(c.at) ^ repeat_byte('0');
  const uint64_t marks = other_than_digits(digits), later = marks & (marks - 1);
  if (later == 0) return false;
  const int whole = first_marked(marks), size = first_marked(later);
  const bool plain =
      whole > 0 && ((digits & 0xff) != 0 || whole == 1) && c.at[whole] == '.' && size > whole + 1;
  if (!plain || (c.at[size] | 0x20) == 'e') return false;
  c.at += size;
  return true;
}

#if defined(__SSE2__)
// Which of 64 bytes are digits, points, commas and spaces, a bit each; zeros are digits too.
struct NumberBytes {
  uint64_t digits = 0, points = 0, commas = 0, spaces = 0, zeros = 0;

  explicit NumberBytes(const char* at) {
    for (int part = 0; part < 4; ++part) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 16 * part));
      const auto mask = [part](__m128i found) {
        return static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(found))) << (16 * part);
      };
      const auto equal = [&](char c) { return mask(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c))); };
      const __m128i above = _mm_subs_epu8(bytes, _mm_set1_epi8('9')),
                    below = _mm_subs_epu8(_mm_set1_epi8('0'), bytes);
      digits |= mask(_mm_cmpeq_epi8(_mm_or_si128(above, below), _mm_setzero_si128()));
      points |= equal('.');
      commas |= equal(',');
      spaces |= equal(' ');
      zeros |= equal('0');
    }
  }
};

// Steps over numbers such as 412.55 and the commas between them, 64 bytes at a time, up to where another
// number begins. The cursor stands where one begins. Each bit of a mask is held against its neighbours; what
// must look back beyond the 64 bytes looks into the last bits of those before.
inline void skip_plain_numbers(Cursor& c) {
  uint64_t after_digit = 0, after_point = 0, after_comma = 1, after_space = 0, in_fraction = 0,
           after_first_zero = 0;
  for (const char* at = c.at; c.end - at >= 64; at += 64) {
    const NumberBytes b(at);
    const uint64_t past_digit = b.digits << 1 | after_digit, past_point = b.points << 1 | after_point;
    const uint64_t past_comma = b.commas << 1 | after_comma, past_space = b.spaces << 1 | after_space;
    const uint64_t first_zeros = b.zeros & (past_comma | past_space);
    uint64_t fraction_ends;
    // Adding a bit to the first of some ones carries it to where they end.
    const bool more = __builtin_add_overflow(b.digits, (past_point & b.digits) | in_fraction, &fraction_ends);
    const uint64_t wrong = ~(b.digits | b.points | b.commas | b.spaces) | (past_point & ~b.digits) |
                           ((b.points | b.commas) & ~past_digit) | (past_comma & ~(b.spaces | b.digits)) |
                           (past_space & ~(b.spaces | b.digits)) | (b.spaces & ~(past_comma | past_space)) |
                           (fraction_ends & ~b.digits & b.points) |
                           ((first_zeros << 1 | after_first_zero) & b.digits);
    if (wrong) return;
    if (b.commas) c.at = at + 64 - __builtin_clzll(b.commas);
    after_digit = b.digits >> 63, after_point = b.points >> 63, after_comma = b.commas >> 63;
    after_space = b.spaces >> 63, in_fraction = more, after_first_zero = first_zeros >> 63;
  }
}
#else
inline void skip_plain_numbers(Cursor&) {}
#endif

// Steps over a value without brackets.
inline bool skip_scalar(Cursor& c) {
  switch (c.peek()) {
    case '"':
      ++c.at;
      return skip_string(c);
    case 't':
      return take_word(c, "true") || c.fail(kValue);
    case 'f':
      return take_word(c, "false") || c.fail(kValue);
    case 'n':
      return take_word(c, "null") || c.fail(kValue);
    default:
      return skip_short_number(c) || skip_number(c);
  }
}

// Steps over a key and the colon behind it, up to the value.
inline bool skip_key(Cursor& c) {
  if (c.peek() != '"') return c.fail(kKey);
  ++c.at;
  if (!skip_string(c)) return false;
  skip_space(c);
  if (c.peek() != ':') return c.fail(kColon);
  ++c.at;
  skip_space(c);
  return true;
}

// Steps over what stands between two values of the brackets `open`, closing those that end, up to the next
// value or, when `open` has become empty, the end of the outermost.
inline bool skip_between(Cursor& c, std::string& open) {
  while (!open.empty()) {
    skip_space(c);
    const bool in_array = open.back() == '[';
    if (c.peek() == ',') {
      ++c.at;
      skip_space(c);
      return in_array || skip_key(c);
    }
    if (c.peek() != (in_array ? ']' : '}')) return c.fail(in_array ? kCommaOrBracket : kCommaOrBrace);
    ++c.at;
    open.pop_back();
  }
  return true;
}

// Steps over an array or an object that opens at the cursor.
inline bool skip_nested(Cursor& c) {
  std::string open;
  do {
    const char mark = c.peek();
    if (mark == '[' || mark == '{') {
      open.push_back(mark);
      c.deepest = std::max(c.deepest, static_cast<int64_t>(open.size()));
      ++c.at;
      skip_space(c);
      if (c.peek() != mark + 2) {  // ASCII: ']' is '[' + 2 and '}' is '{' + 2
        if (mark == '{' && !skip_key(c)) return false;
        if (mark == '[' && static_cast<uint8_t>(c.peek() - '0') < 10) {
          skip_plain_numbers(c);
          skip_space(c);
        }
        continue;
      }
    } else {
      if (!skip_scalar(c)) return false;
      if (open.back() == '[' && c.peek() == ',') {  // the way through a polygon
        ++c.at;
        skip_space(c);
        continue;
      }
    }
    if (!skip_between(c, open)) return false;
  } while (!open.empty());
  return true;
}

// Steps over any value.
inline bool skip_value(Cursor& c) {
  return c.peek() == '[' || c.peek() == '{' ? skip_nested(c) : skip_scalar(c);
}

}  // namespace json
}  // namespace valor
