// COCO records (annotations, results, images, categories) from JSON text to columns, on several threads.
//
// A large array is cut into chunks at guessed record starts. A chunk counts only when the records before it
// end exactly where it begins, so a wrong guess costs time and never changes the result.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "../core/coco_records.h"
#include "../core/platform.h"
#include "guard.h"
#include "pool.h"
#include "simd.h"

namespace valor {
namespace {

using coco::Row;
using coco::Table;
using json::Cursor;

enum class Stop { kBetweenRecords, kArrayEnd, kFailed };

struct Span {
  Stop stop = Stop::kBetweenRecords;
  int64_t rows = 0;
  const char* at = nullptr;  // where reading stopped; null: nothing has been read
  int32_t need = json::kNothing;
};

struct Text {
  const char* begin;
  const char* end;
  uint32_t wanted;
  bool box_areas;  // areas are those of the boxes
};

// Reads records from `at`, where one begins, to the first that begins at `stop_at` or later. A record that
// ends beyond `bound` is not taken: another chunk may own the row that it would fill. There are at most
// `room` rows, unless the file is rewritten meanwhile.
Span read_records(const Text& text, const char* at, const char* stop_at, const char* bound,
                  const Table& table, int64_t row, int64_t room) {
  Cursor c{at, text.end};
  Span span;
  span.at = at;
  span.stop = Stop::kBetweenRecords;
  do {
    Row record;
    bool good = coco::take_record(c, text.wanted, record);
    if (good && c.at > bound) return span;
    if (good && span.rows == room) good = c.fail(json::kCommaOrBracket);
    if (good) {
      if (text.box_areas) record.area = record.box[2] * record.box[3];
      table.write(row + span.rows++, record);
      json::skip_space(c);
      if (c.peek() == ']') {
        span.stop = Stop::kArrayEnd;
      } else if (c.peek() != ',') {
        c.fail(json::kCommaOrBracket);
      }
    }
    if (c.need) {
      span.stop = Stop::kFailed;
    } else {
      ++c.at;
      if (span.stop == Stop::kBetweenRecords) json::skip_space(c);
    }
    span.at = c.at;
  } while (span.stop == Stop::kBetweenRecords && (c.at < stop_at || c.at == text.end));
  span.need = c.need;
  return span;
}

// Calls work(0) .. work(count - 1), each once and started in that order, on at most `threads` threads.
template <class Work>
void for_each_index(int64_t count, int64_t threads, Work work) {
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) work(index);
  };
  parallel_for(count, 1, static_cast<int>(threads), run);
}

// The next `{` that follows a comma and opens with `key` (quotes included): where a record seems to begin.
const char* guess_record(const char* from, const Text& text, const std::string& key) {
  while (const void* found = memchr(from, '{', static_cast<size_t>(text.end - from))) {
    const char* const brace = static_cast<const char*>(found);
    const char* before = brace;
    while (before > text.begin && json::is_space(before[-1])) --before;
    Cursor after{brace + 1, text.end};
    json::skip_space(after);
    if (before > text.begin && before[-1] == ',' && after.left() >= static_cast<int64_t>(key.size()) &&
        memcmp(after.at, key.data(), key.size()) == 0) {
      return brace;
    }
    from = brace + 1;
  }
  return nullptr;
}

// The first key of the record at the cursor with its quotes; empty when there is none.
std::string first_key(Cursor c) {
  if (c.peek() != '{') return {};
  ++c.at;
  json::skip_space(c);
  const char* const key = c.at;
  if (c.peek() != '"') return {};
  ++c.at;
  return json::skip_string(c) ? std::string(key, c.at) : std::string();
}

// How many records can begin in [at, end) at most: a brace opens each, and no colon stands before it, nor a
// colon and a space, as they do before the run lengths of a mask.
VALOR_CLONES int64_t count_openings(const char* at, const char* end) {
  constexpr int64_t kBlock = 4096;
  int64_t total = 0;
  for (int before = 0; before < 2 && at < end; ++before) total += *at++ == '{';
  for (; end - at >= kBlock; at += kBlock) {
    uint8_t lanes[32] = {};  // at most 128 each; a shape that compilers turn into vector compares
    for (int64_t step = 0; step < kBlock; step += 32)
      for (int64_t lane = 0; lane < 32; ++lane) {
        const char* const c = at + step + lane;
        lanes[lane] += (c[0] == '{') & !((c[-1] == ':') | ((c[-1] == ' ') & (c[-2] == ':')));
      }
    for (const uint8_t lane : lanes) total += lane;
  }
  for (; at < end; ++at) total += *at == '{' && at[-1] != ':' && !(at[-1] == ' ' && at[-2] == ':');
  return total;
}

// Lets the pages that lie wholly inside [from, to) go: they are the file's, and come back if they are read
// again.
void release(const char* from, const char* to) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(from) + page - 1) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(to) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

struct Chunk {
  const char* begin;
  const char* end;
  int64_t first_row;  // no earlier record can need this row: each opens a brace before this chunk
  Span span;
};

// Joins the chunks into one run of rows, reading again, in order, whatever a wrong guess left out. A row that
// this fills cannot belong to a chunk still to come: the text before that chunk opens at least as many braces
// as it has rows.
Span join(const Text& text, std::vector<Chunk>& chunks, const Table& table, int64_t rows) {
  Span all;
  all.stop = Stop::kBetweenRecords;
  all.at = chunks.front().begin;
  size_t k = 0;
  while (all.stop == Stop::kBetweenRecords) {
    while (k < chunks.size() && chunks[k].begin < all.at) ++k;
    const bool chained = k < chunks.size() && chunks[k].begin == all.at && chunks[k].span.at > all.at;
    Span next;
    if (chained) {
      next = chunks[k].span;
      if (chunks[k].first_row != all.rows) table.move(all.rows, chunks[k].first_row, next.rows);
    } else {
      const size_t following = k + (k < chunks.size() && chunks[k].begin == all.at);
      const char* const stop_at = following < chunks.size() ? chunks[following].begin : text.end;
      next = read_records(text, all.at, stop_at, text.end, table, all.rows, rows - all.rows);
    }
    next.rows += all.rows;
    all = next;
  }
  return all;
}

}  // namespace
}  // namespace valor

using namespace valor;

// Steps over the value at `at`. out: its end (or where scanning failed), a json::Need, how deep it is nested.
VALOR_API int32_t valor_json_skip(const char* data, int64_t size, int64_t at, int64_t* out) {
  return guarded([&] {
    Cursor c{data + at, data + size};
    json::skip_value(c);
    out[0] = c.at - data;
    out[1] = c.need;
    out[2] = c.deepest;
  });
}

// Cuts the array whose bracket stands at `at` into chunks of about `chunk_bytes`. starts: where each seems to
// begin; bounds: how many records it can hold at most. Both have room for (size - at) / chunk_bytes + 1
// chunks.
VALOR_API int32_t valor_coco_plan(const char* data, int64_t size, int64_t at, int64_t chunk_bytes,
                                  int64_t threads, int64_t* starts, int64_t* bounds, int64_t* chunk_count) {
  return guarded([&] {
    const Text text{data, data + size, 0, false};
    Cursor c{data + at + 1, text.end};
    json::skip_space(c);
    const std::string key = first_key(c);
    int64_t count = 0;
    for (const char* begin = c.at; begin;) {
      starts[count++] = begin - data;
      const int64_t cut = ((begin - data - at) / chunk_bytes + 1) * chunk_bytes;
      begin = key.empty() || at + cut >= size ? nullptr : guess_record(data + at + cut, text, key);
    }
    for_each_index(count, threads, [&](int64_t k) {
      const char* const end = k + 1 < count ? data + starts[k + 1] : text.end;
      bounds[k] = count_openings(data + starts[k], end);
    });
    *chunk_count = count;
  });
}

// Reads the array that valor_coco_plan cut. columns: kColumnCount pointers, each null or to sum(bounds) rows.
// wanted: bit f for each field f to read; without kArea, areas are width x height of the boxes.
// is_mapping: the text is a mapped file, whose pages are let go once read.
// out: rows, where reading stopped, 0 or what was needed there (a json::Need, or kWrongType + field).
VALOR_API int32_t valor_coco_scan(const char* data, int64_t size, const int64_t* starts,
                                  const int64_t* bounds, int64_t chunk_count, int64_t wanted, int64_t threads,
                                  int32_t is_mapping, void* const* columns, int64_t* out) {
  return guarded([&] {
    const Text text{data, data + size, static_cast<uint32_t>(wanted), !((wanted >> coco::kArea) & 1)};
    const Table table(columns, data);
    Span all;
    all.at = data + starts[0];
    if (all.at < text.end && *all.at == ']') {
      ++all.at;
    } else {
      std::vector<Chunk> chunks;
      int64_t rows = 0;
      for (int64_t k = 0; k < chunk_count; rows += bounds[k++]) {
        chunks.push_back({data + starts[k], k + 1 < chunk_count ? data + starts[k + 1] : text.end, rows, {}});
      }
      std::atomic<bool> over{false};  // the array ended, or failed, in a chunk that seems to be the last
      for_each_index(chunk_count, threads, [&](int64_t k) {
        if (over) return;
        Chunk& chunk = chunks[static_cast<size_t>(k)];
        chunk.span = read_records(text, chunk.begin, chunk.end, chunk.end, table, chunk.first_row, bounds[k]);
        if (chunk.span.stop != Stop::kBetweenRecords) over = true;
        if (is_mapping) release(chunk.begin, chunk.end);
      });
      all = join(text, chunks, table, rows);
    }
    out[0] = all.rows;
    out[1] = all.at - data;
    out[2] = all.need;
  });
}
