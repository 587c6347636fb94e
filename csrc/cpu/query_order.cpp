// CPU driver of query_order. Documents are dealt to their queries by counting, or sorted by index where the
// indexes lie too far apart for that; then each query is sorted by score. A document is a word of key and row
// that fits where its row will stand in the result, so that scores of up to 32 bits need hardly any room.
#include "../core/query_order.h"

#include <memory>
#include <vector>

#include "bucket_sort.h"
#include "guard.h"
#include "pool.h"
#include "radix.h"

namespace valor {
namespace {

constexpr int64_t kDocumentsPerHelper = 1 << 14;  // waking a thread for fewer takes longer than it saves
constexpr int64_t kRadixDocuments = 1024;         // fewer are sorted by comparison
constexpr int64_t kAhead = 16;                    // rows of a gather that are fetched ahead

// What the indexes of all documents look like.
struct IndexRange {
  int64_t low, high;
  bool ascending;

  // Number of values from low to high, or 0 where no uint64_t holds it.
  uint64_t width() const { return static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1; }
};

// Of rows from `begin` on, compared with the row before.
template <class Index>
IndexRange range_of_part(const Index* indexes, int64_t begin, int64_t end) {
  Index low = indexes[begin], high = low;
  bool ascending = begin == 0 || indexes[begin] >= indexes[begin - 1];
  for (int64_t row = begin + 1; row < end; ++row) {
    const Index index = indexes[row];
    ascending &= index >= indexes[row - 1];
    low = std::min(low, index), high = std::max(high, index);
  }
  return {low, high, ascending};
}

template <class Index>
IndexRange range_of(const Index* indexes, int64_t rows, int64_t threads) {
  std::vector<IndexRange> parts(threads);
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      parts[part] = range_of_part(indexes, rows * part / threads, rows * (part + 1) / threads);
  };
  parallel_for(threads, 1, static_cast<int>(threads), body);
  IndexRange range = parts[0];
  for (const IndexRange& part : parts) {
    range.low = std::min(range.low, part.low), range.high = std::max(range.high, part.high);
    range.ascending &= part.ascending;
  }
  return range;
}

template <class Order, class Index>
class Ordering {
 public:
  using Raw = typename Order::Raw;
  using Key = typename Order::Key;
  static constexpr bool kWide = sizeof(Raw) == 8;

  explicit Ordering(const QueryOrderTask& task)
      : task_(task),
        rows_(task.rows),
        threads_(std::min(task.threads, task.rows / kDocumentsPerHelper + 1)),
        indexes_(static_cast<const Index*>(task.indexes)),
        preds_(static_cast<const Raw*>(task.preds)),
        words_(reinterpret_cast<uint64_t*>(task.order)) {}

  void run() {
    task_.offsets[0] = *task_.count = 0;
    if (rows_ > 0) group();
    const int64_t count = *task_.count;
    auto body = [&](int64_t begin, int64_t end) {
      Ranker ranker(*this);
      for (int64_t q = begin; q < end; ++q) ranker.rank(task_.offsets[q], task_.offsets[q + 1]);
    };
    parallel_for(count, std::max<int64_t>(1, count / (16 * threads_)), static_cast<int>(threads_), body);
    *task_.error = error_.code();
  }

 private:
  enum Held { kNothing, kRows, kWords };  // in words_

  struct Item {
    uint64_t key;
    uint32_t row;
    bool operator<(const Item& other) const { return key != other.key ? key < other.key : row < other.row; }
  };

  void group() {
    const IndexRange range = range_of(indexes_, rows_, threads_);
    const uint64_t width = range.width();
    if (range.ascending) {
      held_ = kNothing;
      for (int64_t row = 0; row < rows_; ++row) place(row, indexes_[row]);
    } else if (width != 0 && width <= 2 * static_cast<uint64_t>(rows_) + 1024) {
      held_ = kWide ? kRows : kWords;
      deal(range.low, static_cast<int64_t>(width));
    } else {
      held_ = kRows;
      sort_by_index(range);
    }
    task_.offsets[*task_.count] = rows_;
  }

  // The document at `position` is of query `index`; positions ascend.
  void place(int64_t position, int64_t index) {
    int64_t& count = *task_.count;
    if (count > 0 && task_.queries[count - 1] == index) return;
    task_.queries[count] = index, task_.offsets[count] = position;
    ++count;
  }

  uint64_t word(int64_t row) {
    const Raw raw = preds_[row];
    if (Order::is_nan(raw)) error_.note(value_error(row, 0, kNanScore));
    return static_cast<uint64_t>(descending<Order>(raw)) << 32 | static_cast<uint64_t>(row);
  }

  // Counts the documents of each index, in as many pieces of the rows as there are threads.
  void deal(int64_t low, int64_t width) {
    const int64_t pieces = std::max<int64_t>(1, std::min(threads_, 2 * rows_ / width));
    const int64_t size = (rows_ + pieces - 1) / pieces;
    std::unique_ptr<uint32_t[]> places(new uint32_t[pieces * width]());
    auto each = [&](const auto& use) {
      auto body = [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece)
          use(places.get() + piece * width, piece * size, std::min(rows_, (piece + 1) * size));
      };
      parallel_for(pieces, 1, static_cast<int>(threads_), body);
    };
    each([&](uint32_t* counts, int64_t row, int64_t end) {
      for (; row < end; ++row) ++counts[indexes_[row] - low];
    });
    uint32_t total = 0;
    for (int64_t value = 0; value < width; ++value) {
      const uint32_t before = total;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        uint32_t& count = places[piece * width + value];
        const uint32_t found = count;
        count = total;
        total += found;
      }
      if (total > before) place(before, low + value);
    }
    each([&](uint32_t* next, int64_t row, int64_t end) {
      for (; row < end; ++row) words_[next[indexes_[row] - low]++] = kWide ? row : word(row);
    });
  }

  // By the lower half of each index, then by the upper half.
  void sort_by_index(const IndexRange& range) {
    std::unique_ptr<uint64_t[]> spare(new uint64_t[rows_]);
    const uint64_t low = static_cast<uint64_t>(range.low);
    const auto place_of = [&](int64_t row) { return static_cast<uint64_t>(int64_t{indexes_[row]}) - low; };
    const auto sort = [&](int shift) {
      for (int64_t i = 0; i < rows_; ++i) {
        const uint64_t row = shift == 0 ? static_cast<uint64_t>(i) : words_[i] & kRow;
        words_[i] = (place_of(static_cast<int64_t>(row)) >> shift) << 32 | row;
      }
      radix_sort(words_, spare.get(), rows_, [](uint64_t word) { return static_cast<uint32_t>(word >> 32); });
    };
    sort(0);
    if ((range.width() - 1) >> 32 != 0) sort(32);
    for (int64_t i = 0; i < rows_; ++i) {
      if (i + kAhead < rows_) __builtin_prefetch(indexes_ + (words_[i + kAhead] & kRow));
      words_[i] &= kRow;
      place(i, indexes_[words_[i]]);
    }
  }

  // Sorts queries by score, on one thread.
  class Ranker {
   public:
    explicit Ranker(Ordering& owner) : owner_(owner) {}

    // Documents at positions begin to end.
    void rank(int64_t begin, int64_t end) {
      if constexpr (kWide)
        rank_items(begin, end);
      else
        rank_words(owner_.words_ + begin, begin, end - begin);
    }

   private:
    void rank_words(uint64_t* words, int64_t begin, int64_t count) {
      const Held held = owner_.held_;
      for (int64_t i = 0; i < count && held != kWords; ++i) {
        if (held == kRows && i + kAhead < count) __builtin_prefetch(owner_.preds_ + words[i + kAhead]);
        words[i] = owner_.word(held == kRows ? static_cast<int64_t>(words[i]) : begin + i);
      }
      if (count >= kRadixDocuments) {
        std::unique_ptr<uint64_t[]> spare(new uint64_t[count]);
        radix_sort(words, spare.get(), count,
                   [](uint64_t word) { return static_cast<uint32_t>(word >> 32); });
      } else {
        words_(words, count, [](uint64_t word) { return number_of(static_cast<Key>(word >> 32)); });
      }
      for (int64_t i = 0; i < count; ++i) words[i] &= kRow;
    }

    void rank_items(int64_t begin, int64_t end) {
      items_.clear();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = owner_.held_ == kRows ? static_cast<int64_t>(owner_.words_[i]) : i;
        const Raw raw = owner_.preds_[row];
        if (Order::is_nan(raw)) owner_.error_.note(value_error(row, 0, kNanScore));
        items_.push_back({descending<Order>(raw), static_cast<uint32_t>(row)});
      }
      if (end - begin >= kRadixDocuments)
        std::sort(items_.begin(), items_.end());
      else
        wide_(items_.data(), end - begin,
              [](const Item& item) { return number_of(static_cast<Key>(item.key)); });
      for (int64_t i = begin; i < end; ++i) owner_.words_[i] = items_[i - begin].row;
    }

    Ordering& owner_;
    BucketSort<uint64_t> words_;
    BucketSort<Item> wide_;
    std::vector<Item> items_;
  };

  // The score of a descending key; for 16 bits the key, as good for buckets.
  static double number_of(Key key) {
    const Raw raw = Order::raw(~key);
    if constexpr (kWide)
      return double_of(raw);
    else if constexpr (sizeof(Raw) == 4)
      return static_cast<double>(float_from_bits(raw));
    else
      return -static_cast<double>(key);
  }

  static constexpr uint64_t kRow = 0xffffffffu;

  const QueryOrderTask& task_;
  const int64_t rows_, threads_;
  const Index* const indexes_;
  const Raw* const preds_;
  uint64_t* const words_;
  Held held_ = kNothing;
  FirstError error_;
};

}  // namespace
}  // namespace valor

// Fills order, queries, offsets, error and count.
VALOR_API int32_t valor_query_order_cpu(const valor::QueryOrderTask* task) {
  return valor::guarded([&] {
    using namespace valor;
    with_order(task->type, [&](auto order) {
      if (task->index_type == kInt32)
        Ordering<decltype(order), int32_t>(*task).run();
      else
        Ordering<decltype(order), int64_t>(*task).run();
    });
  });
}
