// CPU drivers of text statistics: rows are split over threads. A row is a prediction and its references.
#include "../core/text.h"

#include "../core/edit_rate.h"
#include "../core/extended_edits.h"
#include "../core/platform.h"
#include "guard.h"
#include "pool.h"

namespace valor {
namespace {

// Texts of all rows as ranges of ids: rows[r] to rows[r + 1] are the texts of row r, the prediction first.
struct Batch {
  const int32_t* ids;
  const int64_t *starts, *lengths, *rows;

  Words text(int64_t t) const { return {ids + starts[t], lengths[t]}; }
  // More than any id of row r: ids count from 0 in the order of their first use.
  int32_t ids_of(int64_t r) const {
    int32_t most = 0;
    for (int64_t t = rows[r]; t < rows[r + 1]; ++t)
      for (int64_t i = 0; i < lengths[t]; ++i) most = std::max(most, text(t).ids[i] + 1);
    return most;
  }
  int64_t words_of(int64_t r) const {
    int64_t total = 0;
    for (int64_t t = rows[r]; t < rows[r + 1]; ++t) total += lengths[t];
    return total;
  }
};

// Buffers of one thread, grown to the largest row it has seen.
struct Scratch {
  WordIds words;
  KeyIds grams;
  Positions positions;
  std::vector<uint8_t> lower, marked;
  std::vector<uint16_t> lower_wide;
  std::vector<int32_t> table, predicted, count, most;
  std::vector<std::vector<int32_t>> ids;  // of the n-grams of each text of a row
  std::vector<uint64_t> open, other;
  EditRate rate;
  ExtendedEdits extended;
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

template <class Row>
void for_each_row(int64_t count, int64_t threads, Row row) {
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) row(r, scratch());
  };
  parallel_for(count, 16, static_cast<int>(threads), body);
}

// Fills out [references] with measure(buffers, whose positions are the prediction's, its size, a reference).
template <class Measure>
void for_each_reference(const Batch& batch, int64_t num_rows, int64_t* out, int64_t threads,
                        Measure measure) {
  for_each_row(num_rows, threads, [&](int64_t r, Scratch& s) {
    const Words first = batch.text(batch.rows[r]);
    s.positions.set(first);
    for (int64_t t = batch.rows[r] + 1; t < batch.rows[r + 1]; ++t)
      out[t - r - 1] = measure(s, first.size, batch.text(t));
  });
}

// Turns the ids of (n - 1)-grams into those of n-grams, for every text of the row.
void lengthen(const Batch& batch, int64_t row, int64_t n, Scratch& s) {
  const int64_t texts = batch.rows[row + 1] - batch.rows[row];
  if (s.ids.size() < static_cast<size_t>(texts)) s.ids.resize(texts);
  if (n > 1) s.grams.clear(batch.words_of(row));
  for (int64_t k = 0; k < texts; ++k) {
    const Words text = batch.text(batch.rows[row] + k);
    std::vector<int32_t>& ids = s.ids[k];
    if (n == 1) {
      ids.assign(text.ids, text.ids + text.size);
      continue;
    }
    const int64_t size = std::max<int64_t>(0, text.size - n + 1);
    for (int64_t i = 0; i < size; ++i)
      ids[i] = s.grams.of(static_cast<uint64_t>(ids[i]) << 32 | static_cast<uint32_t>(text.ids[i + n - 1]));
    ids.resize(size);
  }
}

// Matches of each reference, and clipped matches against all of them, for n-grams of one size.
void count_matches(int64_t references, int32_t distinct, int64_t stride, int64_t* matches, int64_t* clipped,
                   Scratch& s) {
  s.predicted.assign(distinct, 0);
  s.most.assign(distinct, 0);
  s.count.assign(distinct, 0);
  for (const int32_t id : s.ids[0]) ++s.predicted[id];
  *clipped = 0;
  for (int64_t k = 1; k <= references; ++k) {
    int64_t found = 0;
    for (const int32_t id : s.ids[k]) {
      const int32_t count = ++s.count[id];
      if (count > s.predicted[id]) continue;
      ++found;
      if (count > s.most[id]) ++s.most[id], ++*clipped;
    }
    for (const int32_t id : s.ids[k]) s.count[id] = 0;
    matches[(k - 1) * stride] = found;
  }
}

// Splits the texts of one row; `lower` is where they may be changed.
template <class Char>
void split_row(const Char* text, const int64_t* offsets, int64_t first, int64_t last, const uint8_t* kinds,
               Tokenizer tokenizer, std::vector<Char>& lower, WordIds& words, int32_t* ids,
               int64_t* lengths) {
  const int64_t begin = offsets[first], size = offsets[last] - begin;
  lower.assign(text + begin, text + begin + size);
  if (tokenizer == kAlphanumeric)
    for (Char& c : lower) c = lower_case(c);
  words.clear(size + 1);
  for (int64_t t = first; t < last; ++t) {
    Char* from = lower.data() + (offsets[t] - begin);
    int32_t* out = ids + offsets[t];
    int64_t length = offsets[t + 1] - offsets[t];
    if (tokenizer == kPlain) length = plain_text(from, length, kinds);
    tokenize_text(from, length, kinds, tokenizer, [&](int64_t at, int64_t end) {
      *out++ =
          words.of({reinterpret_cast<const char*>(from + at), static_cast<size_t>(end - at) * sizeof(Char)});
    });
    lengths[t] = out - (ids + offsets[t]);
  }
}

}  // namespace
}  // namespace valor

// Splits ASCII texts, which follow one another at `offsets` [texts + 1], into words; the ids of text t stand
// in `ids` from offsets[t] on, lengths[t] of them.
VALOR_API int32_t valor_text_words_cpu(const uint8_t* text, const int64_t* offsets, const int64_t* rows,
                                       int64_t num_rows, int64_t tokenizer, int32_t* ids, int64_t* lengths,
                                       int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    for_each_row(num_rows, threads, [&](int64_t r, Scratch& s) {
      split_row(text, offsets, rows[r], rows[r + 1], kAsciiKinds.of, static_cast<Tokenizer>(tokenizer),
                s.lower, s.words, ids, lengths);
    });
  });
}

// The same of texts of 16-bit characters, each of which has its kinds in `kinds` [65536].
VALOR_API int32_t valor_text_wide_words_cpu(const uint16_t* text, const int64_t* offsets, const int64_t* rows,
                                            int64_t num_rows, int64_t tokenizer, const uint8_t* kinds,
                                            int32_t* ids, int64_t* lengths, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    for_each_row(num_rows, threads, [&](int64_t r, Scratch& s) {
      split_row(text, offsets, rows[r], rows[r + 1], kinds, static_cast<Tokenizer>(tokenizer), s.lower_wide,
                s.words, ids, lengths);
    });
  });
}

// Turns ids of a whole batch into those of each row: 0, 1, ... in the order of their first use.
VALOR_API int32_t valor_text_renumber_cpu(int32_t* ids, const int64_t* starts, const int64_t* lengths,
                                          const int64_t* rows, int64_t num_rows, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Batch batch{ids, starts, lengths, rows};
    for_each_row(num_rows, threads, [&](int64_t r, Scratch& s) {
      s.grams.clear(batch.words_of(r) + 1);
      for (int64_t t = rows[r]; t < rows[r + 1]; ++t)
        for (int64_t i = starts[t]; i < starts[t] + lengths[t]; ++i) ids[i] = s.grams.of(ids[i]);
    });
  });
}

// Matching n-grams of 1 to `most` words: of prediction and each reference (matches [references, most]), and
// with each n-gram counted as often as its best reference has it (clipped [rows, most]).
VALOR_API int32_t valor_text_ngrams_cpu(const int32_t* ids, const int64_t* starts, const int64_t* lengths,
                                        const int64_t* rows, int64_t num_rows, int64_t most, int64_t* matches,
                                        int64_t* clipped, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Batch batch{ids, starts, lengths, rows};
    for_each_row(num_rows, threads, [&](int64_t r, Scratch& s) {
      const int64_t references = rows[r + 1] - rows[r] - 1;
      for (int64_t n = 1; n <= most; ++n) {
        lengthen(batch, r, n, s);
        const int32_t distinct = n == 1 ? batch.ids_of(r) : s.grams.used();
        count_matches(references, distinct, most, matches + (rows[r] - r) * most + n - 1,
                      clipped + r * most + n - 1, s);
      }
    });
  });
}

// Length of the longest common subsequence of the prediction and each reference.
VALOR_API int32_t valor_text_lcs_cpu(const int32_t* ids, const int64_t* starts, const int64_t* lengths,
                                     const int64_t* rows, int64_t num_rows, int64_t* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    for_each_reference({ids, starts, lengths, rows}, num_rows, out, threads,
                       [](Scratch& s, int64_t size, const Words& reference) {
                         return lcs_length(s.positions, size, reference, s.open);
                       });
  });
}

// Edit distance of the prediction and each reference.
VALOR_API int32_t valor_text_edits_cpu(const int32_t* ids, const int64_t* starts, const int64_t* lengths,
                                       const int64_t* rows, int64_t num_rows, int64_t* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    for_each_reference({ids, starts, lengths, rows}, num_rows, out, threads,
                       [](Scratch& s, int64_t size, const Words& reference) {
                         return edit_distance(s.positions, size, reference, s.open, s.other);
                       });
  });
}

// Edits of the translation edit rate of the prediction and each reference.
VALOR_API int32_t valor_text_moves_cpu(const int32_t* ids, const int64_t* starts, const int64_t* lengths,
                                       const int64_t* rows, int64_t num_rows, int64_t* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Batch batch{ids, starts, lengths, rows};
    for_each_row(num_rows, threads, [&](int64_t r, Scratch& s) {
      for (int64_t t = rows[r] + 1; t < rows[r + 1]; ++t)
        out[t - r - 1] = s.rate.edits(batch.text(rows[r]), batch.text(t));
    });
  });
}

// Extended edit distance of the prediction and each reference; ids are code points. prices [4]: of a jump, of
// coverage, of a deletion, of an insertion.
VALOR_API int32_t valor_text_extended_edits_cpu(const int32_t* ids, const int64_t* starts,
                                                const int64_t* lengths, const int64_t* rows, int64_t num_rows,
                                                const double* prices, double* out, int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Batch batch{ids, starts, lengths, rows};
    const EditPrices each{prices[0], prices[1], prices[2], prices[3]};
    for_each_row(num_rows, threads, [&](int64_t r, Scratch& s) {
      for (int64_t t = rows[r] + 1; t < rows[r + 1]; ++t)
        out[t - r - 1] = s.extended.distance(batch.text(rows[r]), batch.text(t), each);
    });
  });
}

// Words of the reference that the union of common subsequences with the sentences of the prediction covers,
// each counted at most as often as both have it (ROUGE-L of summaries). Texts are sentences here; pairs
// [count, 4] hold first and last + 1 sentence of a reference and of its prediction.
VALOR_API int32_t valor_text_union_lcs_cpu(const int32_t* ids, const int64_t* starts, const int64_t* lengths,
                                           const int64_t* pairs, int64_t count, int64_t* out,
                                           int64_t threads) {
  return valor::guarded([&] {
    using namespace valor;
    const Batch batch{ids, starts, lengths, nullptr};
    for_each_row(count, threads, [&](int64_t p, Scratch& s) {
      const int64_t* range = pairs + 4 * p;
      int32_t distinct = 0;
      for (const int64_t* side : {range, range + 2})
        for (int64_t t = side[0]; t < side[1]; ++t)
          for (int64_t i = 0; i < lengths[t]; ++i) distinct = std::max(distinct, batch.text(t).ids[i] + 1);
      s.count.assign(distinct, 0);
      s.predicted.assign(distinct, 0);
      for (int64_t t = range[0]; t < range[1]; ++t)
        for (int64_t i = 0; i < lengths[t]; ++i) ++s.count[batch.text(t).ids[i]];
      for (int64_t t = range[2]; t < range[3]; ++t)
        for (int64_t i = 0; i < lengths[t]; ++i) ++s.predicted[batch.text(t).ids[i]];
      out[p] = 0;
      for (int64_t t = range[0]; t < range[1]; ++t) {
        const Words sentence = batch.text(t);
        s.marked.assign(sentence.size, 0);
        for (int64_t other = range[2]; other < range[3]; ++other)
          mark_common(sentence, batch.text(other), s.table, s.marked);
        for (int64_t i = 0; i < sentence.size; ++i) {
          const int32_t id = sentence.ids[i];
          if (s.marked[i] && s.count[id] > 0 && s.predicted[id] > 0)
            --s.count[id], --s.predicted[id], ++out[p];
        }
      }
    });
  });
}
