// Text on the host: splitting ASCII into words, ids of words and n-grams, common subsequences, edit distance.
// Words are int32 ids, equal exactly where the words are; every id below counts within one row.
#pragma once
#include <stdint.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace valor {

// How a text is split. kAlphanumeric: runs of letters and digits in lower case (rouge_score). kValor: runs of
// word characters, or else of anything but white space and full stops (Valor's BLEU). kWhitespace: at white
// space. kPlain: at white space of what plain_text leaves (SQuAD's F1).
enum Tokenizer : int64_t {
  kAlphanumeric = 0,
  kValor = 1,
  kWhitespace = 2,
  kCharacters = 3,
  kNonspace = 4,
  kPlain = 5
};

// What Python's str and re say of a character, as bits; signs are those of ASCII alone.
enum CharacterKind : uint8_t { kSpace = 1, kDigit = 2, kLetter = 4, kSign = 8, kUnderscore = 16 };
constexpr uint8_t kAlnum = kDigit | kLetter, kWord = kAlnum | kUnderscore;

struct AsciiKinds {
  uint8_t of[256] = {};
  constexpr AsciiKinds() {
    for (int c = 0; c < 128; ++c) {
      const bool digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'z';
      const bool space = c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
      const bool sign = c > ' ' && c < 127 && !digit && !letter;
      of[c] = static_cast<uint8_t>(space * kSpace | digit * kDigit | letter * kLetter | sign * kSign |
                                   (c == '_') * kUnderscore);
    }
  }
};
inline constexpr AsciiKinds kAsciiKinds;

template <class Char>
inline Char lower_case(Char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<Char>(c | 32) : c;
}

// Blanks text[begin, end) where it is one of the words a, an, the.
template <class Char>
void blank_article(Char* text, int64_t begin, int64_t end) {
  const int64_t size = end - begin;
  const auto is = [&](const char* word, int64_t letters) {
    return size == letters && std::equal(text + begin, text + end, word);
  };
  if (size >= 1 && size <= 3 && (is("a", 1) || is("an", 2) || is("the", 3)))
    std::fill(text + begin, text + end, static_cast<Char>(' '));
}

// Puts text[0, size) in lower case (of other characters than ASCII the caller does), drops its punctuation
// and blanks the words a, an, the; returns what is left.
template <class Char>
int64_t plain_text(Char* text, int64_t size, const uint8_t* kinds) {
  int64_t kept = 0, word = 0;
  for (int64_t i = 0; i < size; ++i) {
    const Char c = text[i];
    if (kinds[c] & kSign) continue;
    if (!(kinds[c] & kAlnum)) blank_article(text, word, kept), word = kept + 1;
    text[kept++] = lower_case(c);
  }
  blank_article(text, word, kept);
  return kept;
}

// Calls found(begin, end) for each word of text[0, size), lower-cased beforehand where that matters.
template <class Char, class Found>
void tokenize_text(const Char* text, int64_t size, const uint8_t* kinds, Tokenizer tokenizer, Found found) {
  const auto run = [&](int64_t at, auto inside) {
    while (at < size && inside(text[at])) ++at;
    return at;
  };
  const auto are = [kinds](uint8_t kind) { return [=](Char c) { return (kinds[c] & kind) != 0; }; };
  const auto solid = [kinds](Char c) { return !(kinds[c] & kSpace); };
  for (int64_t at = 0; at < size;) {
    int64_t end = at;
    switch (tokenizer) {
      case kAlphanumeric:
        end = run(at, are(kAlnum));
        break;
      case kValor:
        end = run(at, are(kWord));
        if (end == at && text[at] == '$') {
          end = run(at + 1, are(kDigit));
          if (end == at + 1) end = at;
        }
        if (end == at) end = run(at, [&](Char c) { return c != '.' && solid(c); });
        break;
      case kPlain:
      case kWhitespace:
        end = run(at, solid);
        break;
      case kCharacters:
        end = at + 1;
        break;
      case kNonspace:
        end = solid(text[at]) ? at + 1 : at;
        break;
    }
    if (end > at) found(at, end);
    at = std::max(end, at + 1);
  }
}

// Small consecutive ids of distinct keys; clear() costs nothing but a new stamp.
class KeyIds {
 public:
  void clear(int64_t most) {
    size_t size = 16;
    while (size < 2 * static_cast<size_t>(most)) size *= 2;
    if (entries_.size() < size) entries_.assign(size, Entry{0, 0, 0}), stamp_ = 0;
    mask_ = size - 1;
    ++stamp_;
    used_ = 0;
  }
  int32_t of(uint64_t key) {
    return find(key, [](int32_t) { return true; });
  }
  // For keys that are hashes: `same` looks whether the entry with this id really is the one.
  template <class Same>
  int32_t find(uint64_t key, Same same) {
    size_t at = spread(key) & mask_;
    while (entries_[at].stamp == stamp_ && !(entries_[at].key == key && same(entries_[at].id)))
      at = (at + 1) & mask_;
    Entry& entry = entries_[at];
    if (entry.stamp != stamp_) entry = Entry{key, stamp_, used_++};
    return entry.id;
  }
  int32_t used() const { return used_; }

 private:
  struct Entry {
    uint64_t key;
    uint32_t stamp;
    int32_t id;
  };
  static size_t spread(uint64_t key) {
    key *= 0x9e3779b97f4a7c15ull;
    return static_cast<size_t>(key ^ (key >> 29));
  }
  std::vector<Entry> entries_;
  size_t mask_ = 0;
  uint32_t stamp_ = 0;
  int32_t used_ = 0;
};

// Ids of the words of one row, by their bytes.
class WordIds {
 public:
  void clear(int64_t most) { ids_.clear(most), words_.clear(); }
  int32_t of(std::string_view word) {
    uint64_t hash = word.size();
    for (const char c : word) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
    const int32_t id = ids_.find(hash, [&](int32_t known) { return words_[known] == word; });
    if (static_cast<size_t>(id) == words_.size()) words_.push_back(word);
    return id;
  }

 private:
  KeyIds ids_;
  std::vector<std::string_view> words_;
};

struct Words {
  const int32_t* ids;
  int64_t size;
};

// Where each id of the first text of a row stands in it, 64 positions a word. Ids count from 0 in the order
// of their first use, so that those beyond are words of other texts alone.
class Positions {
 public:
  void set(const Words& text) {
    blocks_ = (text.size + 63) / 64;
    ids_ = text.size == 0 ? 0 : *std::max_element(text.ids, text.ids + text.size) + 1;
    bits_.assign((static_cast<size_t>(ids_) + 1) * blocks_, 0);
    for (int64_t i = 0; i < text.size; ++i) bits_[text.ids[i] * blocks_ + i / 64] |= 1ull << (i % 64);
  }
  const uint64_t* of(int32_t id) const { return bits_.data() + std::min(id, ids_) * blocks_; }
  int64_t blocks() const { return blocks_; }

 private:
  std::vector<uint64_t> bits_;  // [ids + 1, blocks], the last row empty
  int64_t blocks_ = 0;
  int32_t ids_ = 0;
};

// Length of the longest common subsequence. Bit i of `open` is clear where the length grows at word i:
// Hyyro, "Bit-parallel LCS-length computation revisited" (2004).
inline int64_t lcs_length(const Positions& first, int64_t size, const Words& second,
                          std::vector<uint64_t>& open) {
  open.assign(first.blocks(), ~0ull);
  for (int64_t j = 0; j < second.size; ++j) {
    const uint64_t* at = first.of(second.ids[j]);
    uint64_t carry = 0;
    for (int64_t b = 0; b < first.blocks(); ++b) {
      const uint64_t v = open[b], u = v & at[b];
      const uint64_t sum = v + u, total = sum + carry;
      carry = (sum < v) | (total < sum);
      open[b] = total | (v - u);
    }
  }
  int64_t length = 0;
  for (int64_t b = 0; b < first.blocks(); ++b) {
    const int64_t left = size - 64 * b;
    length += __builtin_popcountll(~open[b] & (left >= 64 ? ~0ull : (1ull << left) - 1));
  }
  return length;
}

// Words inserted, deleted and replaced at least: Myers (1999) in blocks as Hyyro (2003) arranges them.
inline int64_t edit_distance(const Positions& first, int64_t size, const Words& second,
                             std::vector<uint64_t>& plus, std::vector<uint64_t>& minus) {
  if (size == 0) return second.size;
  const int64_t last = first.blocks() - 1;
  const uint64_t top = 1ull << ((size - 1) % 64);
  plus.assign(first.blocks(), ~0ull);
  minus.assign(first.blocks(), 0);
  int64_t distance = size;
  for (int64_t j = 0; j < second.size; ++j) {
    const uint64_t* at = first.of(second.ids[j]);
    uint64_t carry_plus = 1, carry_minus = 0;
    for (int64_t b = 0; b <= last; ++b) {
      const uint64_t pv = plus[b], mv = minus[b], eq = at[b] | carry_minus;
      const uint64_t xv = at[b] | mv, xh = (((eq & pv) + pv) ^ pv) | eq;
      uint64_t ph = mv | ~(xh | pv), mh = pv & xh;
      if (b == last) distance += ((ph & top) != 0) - ((mh & top) != 0);
      const uint64_t out_plus = ph >> 63, out_minus = mh >> 63;
      ph = ph << 1 | carry_plus;
      mh = mh << 1 | carry_minus;
      carry_plus = out_plus, carry_minus = out_minus;
      plus[b] = mh | ~(xv | ph);
      minus[b] = ph & xv;
    }
  }
  return distance;
}

// Marks the words of `text` that lie on one longest common subsequence with `other`; of several it is the one
// that ROUGE's summary-level score walks (Lin 2004, in rouge_score's order: a step back in `other` where the
// table is larger there, else in `text`).
inline void mark_common(const Words& text, const Words& other, std::vector<int32_t>& table,
                        std::vector<uint8_t>& marked) {
  const int64_t width = other.size + 1;
  table.assign((text.size + 1) * width, 0);
  for (int64_t i = 1; i <= text.size; ++i)
    for (int64_t j = 1; j <= other.size; ++j) {
      const int32_t* above = table.data() + (i - 1) * width + j;
      table[i * width + j] =
          text.ids[i - 1] == other.ids[j - 1] ? above[-1] + 1 : std::max(above[0], table[i * width + j - 1]);
    }
  for (int64_t i = text.size, j = other.size; i > 0 && j > 0;) {
    if (text.ids[i - 1] == other.ids[j - 1])
      marked[--i] = 1, --j;
    else if (table[i * width + j - 1] > table[(i - 1) * width + j])
      --j;
    else
      --i;
  }
}

}  // namespace valor
