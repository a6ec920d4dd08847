#include "kv/page_pool.h"

#include <algorithm>

#include "check.h"

using namespace kimi;

TEST_CASE("page pool: growing is all or nothing and says what is missing") {
    PagePool pool(5);
    std::vector<std::uint32_t> a, b;
    pool.grow(a, 65);
    CHECK(a.size() == 2);
    pool.grow(a, 128);
    CHECK(a.size() == 2);
    pool.grow(b, 192);
    const Error error = test::error_of([&] { pool.grow(a, 129); });
    CHECK(error.status == KIMI_BUSY);
    CHECK(error.text == "the KV cache has 0 free pages of 5, 1 more are needed for 129 tokens");
    CHECK(a.size() == 2);
    pool.shrink(b, 64);
    CHECK(b.size() == 1);
    CHECK(pool.n_free() == 2);
    pool.grow(a, 129);
    std::vector<std::uint32_t> all(a);
    all.insert(all.end(), b.begin(), b.end());
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}
