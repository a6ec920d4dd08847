#include "kv/kv_space.h"

#include <cstring>
#include <random>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "check.h"

using namespace kimi;

namespace {

// A device with small pages, and a KV space over it.
struct Space {
    DeviceLimits limits;
    std::unique_ptr<Device> device;
    std::unique_ptr<KvSpace> kv;

    explicit Space(std::uint32_t n_pages, std::uint32_t window = 0)
        : device(make_cpu_device(CpuIsa::scalar, 1)) {
        limits.rows = 1, limits.width = 32, limits.context = 4096;
        limits.top_k = limits.n_experts = 1, limits.expert_width = limits.hidden = 32;
        limits.mla = {1, 16, 16, 16, 32, 1.0f};
        limits.kv = {KvType::f32, 2, n_pages, 32, 16};
        if (window > 0) limits.draft = {1, 1, 32, 1, 1, window, window + kPageTokens, 4, 0, 1};
        device->reserve(limits);
        kv = std::make_unique<KvSpace>(*device, limits);
    }
    // A page is filled with a number, and recognised by it.
    void fill(std::uint32_t page, unsigned char value) const {
        const std::vector<std::byte> bytes(device->page_bytes(), std::byte{value});
        device->write_page(page, bytes.data());
    }
    int value(std::uint32_t page) const {
        std::vector<std::byte> bytes(device->page_bytes());
        device->read_page(page, bytes.data());
        for (const std::byte b : bytes)
            if (b != bytes[0]) return -1;
        return static_cast<int>(bytes[0]);
    }
    void fill_ring(const KvSequence &s, unsigned char value) const {
        const std::vector<std::byte> bytes(device->ring_bytes(), std::byte{value});
        device->write_ring(s.ring, bytes.data());
    }
    int ring_value(const KvSequence &s) const {
        std::vector<std::byte> bytes(device->ring_bytes());
        device->read_ring(s.ring, bytes.data());
        return static_cast<int>(bytes[0]);
    }
};

struct Sequence : KvSequence {
    KvSpace &kv;
    explicit Sequence(Space &space) : kv(*space.kv) { kv.open(*this, 4096); }
    Sequence(const Sequence &) = delete;
    ~Sequence() { kv.close(*this); }
    void write(std::uint32_t n) {
        kv.reserve(*this, n_tokens + n);
        kv.written(*this, n);
    }
};

std::vector<std::int32_t> some_tokens(std::uint32_t n, std::int32_t first = 0) {
    std::vector<std::int32_t> tokens(n);
    for (std::uint32_t i = 0; i < n; ++i) tokens[i] = first + static_cast<std::int32_t>(i);
    return tokens;
}

}  // namespace

TEST_CASE("kv: a full pool is busy, says what is missing, and nothing is lost") {
    Space space(5);
    Sequence a(space), b(space);
    a.write(65);
    b.write(192);
    const BlockTable before = a.pages;
    const Error error = test::error_of([&] { a.write(64); });
    CHECK(error.status == KIMI_BUSY);
    CHECK(error.text == "the KV cache has 0 free pages of 5, 1 more are needed for 129 tokens");
    CHECK(a.pages == before);
    CHECK(a.n_tokens == 65);
    space.kv->truncate(b, 64);
    a.write(64);
    CHECK(a.pages.size() == 3);
    space.kv->check();
}

TEST_CASE("kv: a forked sequence shares full pages and has its own copy of the last") {
    Space space(20, 64);
    Sequence a(space), b(space);
    a.write(200);
    for (std::uint32_t i = 0; i < 4; ++i)
        space.fill(a.pages[i], static_cast<unsigned char>(10 + i));
    space.fill_ring(a, 77);
    space.kv->fork(a, b);
    CHECK(b.n_tokens == 200);
    for (std::uint32_t i = 0; i < 3; ++i) CHECK(b.pages[i] == a.pages[i]);
    CHECK(b.pages[3] != a.pages[3]);
    CHECK(space.value(b.pages[3]) == 13);
    CHECK(space.ring_value(b) == 77);
    CHECK(space.kv->n_free() == 15);
    space.kv->check();
}

TEST_CASE("kv: a shared page is copied before it is written") {
    Space space(20);
    Sequence a(space), b(space);
    a.write(128);
    space.fill(a.pages[1], 42);
    space.kv->fork(a, b);
    space.kv->truncate(b, 100);  // inside the second page, which both use
    CHECK(b.pages == a.pages);
    b.write(1);
    CHECK(b.pages[0] == a.pages[0]);
    CHECK(b.pages[1] != a.pages[1]);
    CHECK(space.value(b.pages[1]) == 42);
    space.kv->check();
}

TEST_CASE("kv: kept prefixes are found, and given up when pages are needed") {
    Space space(8);
    const auto tokens = some_tokens(300);
    {
        Sequence a(space);
        a.write(300);
        for (std::uint32_t i = 0; i < 4; ++i)
            space.fill(a.pages[i], static_cast<unsigned char>(20 + i));
        space.kv->keep(a, tokens);
    }
    CHECK(space.kv->stats().n_evictable == 4);
    Sequence b(space);
    space.kv->reuse(b, std::span(tokens).first(256));  // one token must be left: three pages
    CHECK(b.n_tokens == 192);
    for (std::uint32_t i = 0; i < 3; ++i)
        CHECK(space.value(b.pages[i]) == 20 + static_cast<int>(i));
    Sequence c(space);
    c.write(5 * 64);  // four free pages and the cached one that nobody uses
    CHECK(space.kv->stats().n_free == 0);
    CHECK(space.kv->stats().evicted == 1);
    space.kv->check();
}

TEST_CASE(
    "kv: a hit ends where the drafter's ring is known, or far enough before to fill it again") {
    Space space(32, 128);
    const auto tokens = some_tokens(64 * 8 + 10);
    {
        Sequence a(space);
        a.write(64 * 8 + 10);
        space.fill_ring(a, 99);
        space.kv->keep(a, tokens);
    }
    auto same = tokens;
    same.push_back(1);
    {
        Sequence b(space);
        space.fill_ring(b, 0);
        space.kv->reuse(b, same);
        CHECK(b.n_tokens == 64 * 8);
        CHECK(space.ring_value(b) == 99);
        CHECK(b.ring_begin == 64 * 8 - 128);
        CHECK(b.full_begin == 0);
    }
    Sequence c(space);
    auto other = some_tokens(64 * 5);
    other.push_back(7777);
    space.kv->reuse(c, other);  // five pages match, the ring there is not known
    CHECK(c.n_tokens == 64 * 3);
    CHECK(c.ring_begin == 64 * 3);
    space.kv->check();
}

TEST_CASE("kv: defragmentation makes every sequence contiguous and keeps its contents") {
    std::mt19937 random(11);
    Space space(100);
    std::vector<std::unique_ptr<Sequence>> sequences;
    // Interleaved growth beyond the reserves, and holes.
    for (int i = 0; i < 8; ++i) sequences.push_back(std::make_unique<Sequence>(space));
    for (int i = 0; i < 90; ++i) sequences[random() % 8]->write(64);
    sequences[2].reset();
    sequences[5].reset();
    std::vector<std::vector<unsigned char>> contents;
    for (const auto &s : sequences) {
        contents.emplace_back();
        if (s == nullptr) continue;
        for (const std::uint32_t page : s->pages) {
            contents.back().push_back(static_cast<unsigned char>(random()));
            space.fill(page, contents.back().back());
        }
    }
    Sequence fork(space);
    space.kv->fork(*sequences[0], fork);
    const KvStats before = space.kv->stats();
    CHECK(before.n_runs > before.n_sequences);
    CHECK(space.kv->is_fragmented());
    CHECK(space.kv->defragment(1e9));
    CHECK(space.kv->stats().n_runs == before.n_sequences);
    CHECK(!space.kv->is_fragmented());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        if (sequences[i] == nullptr) continue;
        CHECK(count_runs(sequences[i]->pages) == 1);
        for (std::size_t j = 0; j < contents[i].size(); ++j)
            CHECK(space.value(sequences[i]->pages[j]) == contents[i][j]);
    }
    CHECK(fork.pages == sequences[0]->pages);
    space.kv->check();
}

TEST_CASE("kv: defragmentation in small steps, with work in between, comes to the same end") {
    std::mt19937 random(12);
    Space space(200);
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (int i = 0; i < 10; ++i) sequences.push_back(std::make_unique<Sequence>(space));
    for (int i = 0; i < 150; ++i) sequences[random() % 10]->write(64);
    int steps = 0;
    while (!space.kv->defragment(0)) {  // one move at a time
        REQUIRE(++steps < 2000);
        if (steps % 7 == 0 && space.kv->n_free() > 20) sequences[random() % 10]->write(64);
        space.kv->check();
    }
    const KvStats stats = space.kv->stats();
    CHECK(stats.n_runs == stats.n_sequences);
    CHECK(stats.pages_moved == static_cast<std::uint64_t>(steps));
}
