#include "kv/prefix_cache.h"

#include <map>
#include <random>

#include "check.h"

using namespace kimi;

namespace {

std::vector<std::int32_t> tokens_of(std::initializer_list<std::int32_t> pages) {
    std::vector<std::int32_t> tokens;
    for (const std::int32_t page : pages) tokens.insert(tokens.end(), kPageTokens, page);
    return tokens;
}

BlockTable new_table(PagePool &pool, std::uint32_t n) {
    BlockTable table;
    table.reserve(64);
    pool.grow(table, n);
    return table;
}

}  // namespace

TEST_CASE("prefix cache: whole pages are found by all tokens before them") {
    PagePool pool(32);
    PrefixCache cache(pool);
    BlockTable table = new_table(pool, 3);
    cache.insert(tokens_of({1, 2, 3}), table, 0);
    CHECK(cache.find(tokens_of({1, 2, 3, 4})).n_pages == 3);
    CHECK(cache.find(tokens_of({1, 2})).n_pages == 2);
    CHECK(cache.find(tokens_of({2, 3})).n_pages == 0);
    CHECK(cache.find(tokens_of({1, 3})).n_pages == 1);
    std::vector<std::int32_t> cut = tokens_of({1, 2});
    cut.pop_back();
    const PrefixCache::Match match = cache.find(cut);
    CHECK(match.n_pages == 1);
    CHECK(cache.page(match.node) == table[0]);
    CHECK(pool.uses(table[0]) == 2);
}

TEST_CASE("prefix cache: equal pages are kept once") {
    PagePool pool(32);
    PrefixCache cache(pool);
    BlockTable a = new_table(pool, 2), b = new_table(pool, 2);
    cache.insert(tokens_of({1, 2}), a, 0);
    const std::uint32_t free_before = pool.n_free();
    cache.insert(tokens_of({1, 5}), b, 0);
    CHECK(b[0] == a[0]);
    CHECK(b[1] != a[1]);
    CHECK(pool.n_free() == free_before + 1);
    CHECK(cache.n_nodes() == 3);
}

TEST_CASE("prefix cache: pages with the drafter's keys replace pages without") {
    PagePool pool(32);
    PrefixCache cache(pool);
    BlockTable a = new_table(pool, 2), b = new_table(pool, 2);
    cache.insert(tokens_of({1, 2}), a, UINT32_MAX);
    CHECK(!cache.has_draft(cache.find(tokens_of({1})).node));
    cache.insert(tokens_of({1, 2}), b, kPageTokens);  // the second page has them
    const PrefixCache::Match match = cache.find(tokens_of({1, 2}));
    CHECK(cache.has_draft(match.node));
    CHECK(cache.page(match.node) == b[1]);
    CHECK(cache.page(cache.ancestor(match.node, 1)) == a[0]);
    CHECK(a[1] != b[1]);
}

TEST_CASE("prefix cache: what was not used for longest goes first, and never what is in use") {
    PagePool pool(8);
    PrefixCache cache(pool);
    BlockTable a = new_table(pool, 2), b = new_table(pool, 2), c = new_table(pool, 2);
    cache.insert(tokens_of({1, 2}), a, 0);
    cache.insert(tokens_of({3, 4}), b, 0);
    cache.insert(tokens_of({5, 6}), c, 0);
    pool.shrink(a, 0);
    pool.shrink(b, 0);
    CHECK(cache.n_evictable() == 4);
    cache.find(tokens_of({1, 2}));
    std::vector<std::uint32_t> evicted;
    cache.evict(pool.n_free() + 1,
                [&](std::uint32_t node) { evicted.push_back(cache.page(node)); });
    CHECK(evicted.size() == 1);
    CHECK(cache.find(tokens_of({3, 4})).n_pages == 1);  // its leaf is gone
    CHECK(cache.find(tokens_of({1, 2})).n_pages == 2);
    cache.evict(8, [](std::uint32_t) {});
    CHECK(pool.n_free() == 6);
    CHECK(cache.find(tokens_of({5, 6})).n_pages == 2);
    CHECK(cache.find(tokens_of({1, 2})).n_pages == 0);
}

// Against a map from token strings to pages.
TEST_CASE("prefix cache: an unused page stays while a page behind it is in use") {
    PagePool pool(32);
    PrefixCache cache(pool);
    BlockTable a = new_table(pool, 2), b = new_table(pool, 3);
    cache.insert(tokens_of({1, 2}), a, 0);
    cache.insert(tokens_of({1, 2, 3}), b, UINT32_MAX);  // keeps its own pages: the drafter differs
    REQUIRE(b[0] != a[0]);
    pool.shrink(a, 0);
    const std::uint32_t n_free = pool.n_free();
    CHECK(cache.n_evictable() == 0);
    cache.evict(32, [](std::uint32_t) {});
    CHECK(pool.n_free() == n_free);
    pool.shrink(b, 0);
    CHECK(cache.n_evictable() == 3);
    cache.evict(32, [](std::uint32_t) {});
    CHECK(pool.n_free() == 32);
}

TEST_CASE("prefix cache: random inserts, finds and evictions agree with a naive map") {
    PagePool pool(64);
    PrefixCache cache(pool);
    std::mt19937 random(3);
    std::map<std::vector<std::int32_t>, std::uint32_t> naive;
    for (int i = 0; i < 20000; ++i) {
        std::vector<std::int32_t> pages(1 + random() % 5);
        for (std::int32_t &page : pages) page = static_cast<std::int32_t>(random() % 3);
        std::vector<std::int32_t> tokens;
        for (const std::int32_t page : pages) tokens.insert(tokens.end(), kPageTokens, page);
        if (random() % 2 == 0) {
            const auto forget = [&](std::uint32_t node) {
                std::erase_if(naive,
                              [&](const auto &entry) { return entry.second == cache.page(node); });
            };
            cache.evict(static_cast<std::uint32_t>(pages.size()), forget);
            if (pool.n_free() < pages.size()) continue;
            BlockTable table = new_table(pool, static_cast<std::uint32_t>(pages.size()));
            cache.insert(tokens, table, 0);
            for (std::size_t n = 1; n <= pages.size(); ++n)
                naive.try_emplace({pages.begin(), pages.begin() + static_cast<long>(n)},
                                  table[n - 1]);
            pool.shrink(table, 0);
        } else {
            std::size_t n = 0;
            while (n < pages.size() &&
                   naive.contains({pages.begin(), pages.begin() + static_cast<long>(n) + 1}))
                ++n;
            const PrefixCache::Match match = cache.find(tokens);
            REQUIRE(match.n_pages == n);
            if (n > 0)
                REQUIRE(cache.page(match.node) ==
                        naive[{pages.begin(), pages.begin() + static_cast<long>(n)}]);
        }
        REQUIRE(cache.n_nodes() == naive.size());
        std::vector<std::uint32_t> cached;
        cache.collect_pages(cached);
        if (i % 100 == 0) pool.check({}, cached);
    }
}
