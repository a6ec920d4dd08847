#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "commands.h"
#include "kv/defrag.h"
#include "kv/page_pool.h"
#include "measure.h"

namespace kimi::bench {
namespace {

constexpr std::uint32_t kPages = 8192;
constexpr double kFill = 0.9;

// What gives pages to sequences in the trace.
class Allocator {
  public:
    virtual ~Allocator() = default;
    virtual std::uint32_t n_free() const = 0;
    virtual void grow(BlockTable &table, std::uint32_t expected) = 0;  // by a page
    virtual void clear(BlockTable &table) = 0;
    virtual void between_steps(std::span<BlockTable *const>) {}
    std::uint64_t moved = 0;
};

// The last page given back is the first given out.
class Lifo final : public Allocator {
  public:
    Lifo() {
        for (std::uint32_t page = kPages; page-- > 0;) free_.push_back(page);
    }
    std::uint32_t n_free() const override { return static_cast<std::uint32_t>(free_.size()); }
    void grow(BlockTable &table, std::uint32_t) override {
        table.push_back(free_.back());
        free_.pop_back();
    }
    void clear(BlockTable &table) override {
        free_.insert(free_.end(), table.begin(), table.end());
        table.clear();
    }

  private:
    std::vector<std::uint32_t> free_;
};

class Pool : public Allocator {
  public:
    std::uint32_t n_free() const override { return pool_.n_free(); }
    void grow(BlockTable &table, std::uint32_t expected) override {
        pool_.grow(table, 1, expected);
    }
    void clear(BlockTable &table) override { pool_.shrink(table, 0); }

  protected:
    PagePool pool_{kPages};
};

// A few page moves in every step.
class DefragmentedPool final : public Pool {
  public:
    void between_steps(std::span<BlockTable *const> tables) override {
        plan_.make(pool_, tables, {});
        DefragPlan::Move move;
        for (int i = 0; i < 4 && plan_.next(pool_, move); ++i, ++moved) {
            pool_.relocate(move.from, move.to, tables);
            plan_.moved(move);
        }
    }

  private:
    DefragPlan plan_{kPages};
};

struct Sequence {
    BlockTable table;
    std::uint32_t prompt, length;  // pages
};

// Sessions of log-normal length join and leave so that the pool stays nearly full; all grow in
// turn.
class Churn {
  public:
    explicit Churn(Allocator &allocator) : allocator_(allocator) {}

    void run(int n_steps) {
        for (int step = 0; step < n_steps; ++step) {
            while (allocator_.n_free() > (1 - kFill) * kPages) join();
            for (auto &s : sequences_)
                if (allocator_.n_free() > 0) allocator_.grow(s->table, 0);
            std::erase_if(sequences_, [&](const std::unique_ptr<Sequence> &s) {
                if (s->table.size() < s->length) return false;
                allocator_.clear(s->table);
                return true;
            });
            tables_.clear();
            for (auto &s : sequences_) tables_.push_back(&s->table);
            allocator_.between_steps(tables_);
        }
    }
    double pages_per_run() const {
        std::size_t pages = 0, runs = 0;
        for (const auto &s : sequences_) pages += s->table.size(), runs += count_runs(s->table);
        return static_cast<double>(pages) / static_cast<double>(runs);
    }
    std::size_t n_sequences() const { return sequences_.size(); }
    // The pages of one long sequence of the trace.
    const BlockTable &longest() const {
        return (*std::max_element(
                    sequences_.begin(), sequences_.end(),
                    [](const auto &a, const auto &b) { return a->table.size() < b->table.size(); }))
            ->table;
    }

  private:
    void join() {
        auto s = std::make_unique<Sequence>();
        s->table.reserve(kPages);
        s->prompt = 1 + static_cast<std::uint32_t>(std::min(1000.0, length_(random_)));
        s->length = s->prompt + 1 + static_cast<std::uint32_t>(std::min(1000.0, length_(random_)));
        for (std::uint32_t i = 0; i < s->prompt && allocator_.n_free() > 0; ++i)
            allocator_.grow(s->table, s->prompt - i);
        sequences_.push_back(std::move(s));
    }

    Allocator &allocator_;
    std::mt19937 random_{42};
    std::lognormal_distribution<double> length_{std::log(60.0),
                                                1.0};  // pages: 3,840 tokens in the median
    std::vector<std::unique_ptr<Sequence>> sequences_;
    std::vector<BlockTable *> tables_;
};

// GB/s at which pages of the engine's KV size are read in the order of a table.
double read_rate(const BlockTable &table, std::size_t page_bytes,
                 const std::vector<std::uint64_t> &memory) {
    const std::size_t words = page_bytes / sizeof(std::uint64_t), n_pages = memory.size() / words;
    std::vector<double> seconds;
    std::uint64_t sum = 0;
    for (int pass = 0; pass < 7; ++pass) {
        const auto start = std::chrono::steady_clock::now();
        for (const std::uint32_t page : table) {
            const std::uint64_t *data = memory.data() + page % n_pages * words;
            for (std::size_t i = 0; i < words; ++i) sum += data[i];
        }
        seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return sum == 1 ? 0 : static_cast<double>(table.size() * page_bytes) / median(seconds) / 1e9;
}

}  // namespace

void run_kv(const Options &options) {
    std::size_t page_bytes = 64 * 576 * 2;  // of one layer, bf16
    if (!options.deployment.empty())
        page_bytes = open_engine(options.deployment)->runner().kv().page_bytes();
    const std::vector<std::uint64_t> memory(kPages * page_bytes / sizeof(std::uint64_t), 2);
    Lifo lifo;
    Pool pool;
    DefragmentedPool defragmented;
    struct Row {
        const char *name;
        Allocator *allocator;
    };
    const Row rows[] = {{"LIFO free list", &lifo},
                        {"page pool (tier 0)", &pool},
                        {"and 4 moves a step (tier 1)", &defragmented}};
    std::printf("churn at %.0f %% of %u pages, one layer's page %zu B\n", kFill * 100, kPages,
                page_bytes);
    std::printf("%-28s %9s %14s %13s %12s %14s\n", "", "sequences", "pages per run",
                "bytes per run", "pages moved", "read GB/s");
    for (const Row &row : rows) {
        Churn churn(*row.allocator);
        churn.run(3000);
        const double run = churn.pages_per_run();
        std::printf("%-28s %9zu %14.1f %13.0f %12llu %14.2f\n", row.name, churn.n_sequences(), run,
                    run * static_cast<double>(page_bytes),
                    static_cast<unsigned long long>(row.allocator->moved),
                    read_rate(churn.longest(), page_bytes, memory));
    }
}

}  // namespace kimi::bench
