#include "kv/page_pool.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "check.h"

using namespace kimi;

namespace {

BlockTable table_for(std::uint32_t n_pages) {
    BlockTable table;
    table.reserve(n_pages);
    return table;
}

}  // namespace

TEST_CASE("page pool: a growing sequence stays contiguous, and others keep off its reserve") {
    PagePool pool(100);
    BlockTable a = table_for(100), b = table_for(100);
    pool.grow(a, 3);
    pool.grow(b, 3);
    CHECK(a == BlockTable{0, 1, 2});
    CHECK(b.front() > 2 + PagePool::kReserve);
    for (std::uint32_t i = 0; i < PagePool::kReserve; ++i) {
        pool.grow(a, 1);
        pool.grow(b, 1);
    }
    CHECK(count_runs(a) == 1);
    CHECK(count_runs(b) == 1);
    const BlockTable *tables[] = {&a, &b};
    pool.check(tables, {});
}

TEST_CASE("page pool: reserves are given up before anything is refused") {
    PagePool pool(20);
    BlockTable a = table_for(20), b = table_for(20);
    pool.grow(a, 2);
    pool.grow(b, 18);
    CHECK(pool.n_free() == 0);
    std::vector<std::uint32_t> all(a);
    all.insert(all.end(), b.begin(), b.end());
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
    pool.shrink(b, 3);
    CHECK(pool.n_free() == 15);
    CHECK(b.size() == 3);
}

TEST_CASE("page pool: shared pages are free when their last user goes") {
    PagePool pool(10);
    BlockTable a = table_for(10), b = table_for(10);
    pool.grow(a, 4);
    pool.share(b, std::span(a).first(3));
    CHECK(pool.uses(a[0]) == 2);
    CHECK(pool.uses(a[3]) == 1);
    const std::uint32_t own = pool.replace(b, 2);
    CHECK(own != a[2]);
    CHECK(pool.uses(a[2]) == 1);
    pool.shrink(a, 0);
    CHECK(pool.n_free() == 7);
    CHECK(pool.uses(b[0]) == 1);
    pool.shrink(b, 0);
    CHECK(pool.n_free() == 10);
}

// Growth takes any free page, so what is checked is bookkeeping: against sets of pages per table.
TEST_CASE("page pool: ten thousand random operations leave the counts right") {
    constexpr std::uint32_t kPages = 200;
    std::mt19937 random(5);
    PagePool pool(kPages);
    std::vector<BlockTable> tables(12, table_for(0));
    for (BlockTable &table : tables) table.reserve(kPages);
    std::vector<BlockTable *> pointers;
    for (BlockTable &table : tables) pointers.push_back(&table);
    std::vector<std::uint32_t> others;
    const auto pick = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    for (int i = 0; i < 10000; ++i) {
        BlockTable &table = tables[pick(12)];
        const std::size_t room = kPages - table.size();
        switch (pick(7)) {
            case 0:
            case 1:
                pool.grow(table, std::min<std::uint32_t>(
                                     {pick(10), pool.n_free(), static_cast<std::uint32_t>(room)}));
                break;
            case 2:
                pool.shrink(table,
                            table.empty() ? 0 : pick(static_cast<std::uint32_t>(table.size())));
                break;
            case 3: {
                const BlockTable from = tables[pick(12)];
                pool.share(table, std::span(from).first(std::min(from.size(), room)));
                break;
            }
            case 4:
                if (!table.empty() && pool.n_free() > 0)
                    pool.replace(table, pick(static_cast<std::uint32_t>(table.size())));
                break;
            case 5:
                if (!table.empty()) {
                    others.push_back(table[pick(static_cast<std::uint32_t>(table.size()))]);
                    pool.retain(others.back());
                }
                while (others.size() > 10) pool.release(others.back()), others.pop_back();
                break;
            case 6:
                if (!table.empty() && pool.n_free() > 0) {
                    const std::uint32_t from = table[0];
                    std::uint32_t to = 0;
                    while (!pool.is_free(to)) ++to;
                    // A table that has the page twice would need both entries changed.
                    const bool twice =
                        std::any_of(tables.begin(), tables.end(), [&](const BlockTable &t) {
                            return std::count(t.begin(), t.end(), from) > 1;
                        });
                    if (twice) break;
                    pool.relocate(from, to, pointers);
                    std::replace(others.begin(), others.end(), from, to);
                }
        }
        pool.check(pointers, others);
    }
}

TEST_CASE("page pool: a typical operation takes less than 200 ns" *
          doctest::skip(test::kInstrumented)) {
    PagePool pool(4096);
    std::vector<BlockTable> tables(16, table_for(0));
    for (BlockTable &table : tables) table.reserve(4096);
    double best = 1;
    for (int round = 0; round < 20; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 100; ++i)
            for (BlockTable &table : tables) pool.grow(table, 1);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        best = std::min(best, seconds.count() / 1600);
        for (BlockTable &table : tables) pool.shrink(table, 0);
    }
    MESSAGE("growing by a page: ", best * 1e9, " ns");
    CHECK(best < 200e-9);
}
