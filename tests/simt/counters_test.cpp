// Counters on access patterns whose cost is known.
#include <vector>

#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

struct Arrays {
    Buffer<float> x{"x", std::vector<float>(32 * 1024, 1.0F)};
    Buffer<float> y{"y", std::vector<float>(32 * 1024, 1.0F)};
    Global<const float> in = x.data();
    Global<float> out = y.data();
};

Counters count(unsigned threads, std::function<void()> body) {
    const Report r = run_body({1}, {threads}, 32768, std::move(body));
    check_clean(r);
    return r.counters("body");
}

TEST_CASE("simt: sectors of coalesced, strided and scattered loads") {
    Arrays a;
    const auto load_at = [&](std::function<unsigned(unsigned)> index) {
        return count(32, [&a, index] { (void)load<float>(a.in + index(tid())); }).buffer("x");
    };
    const auto coalesced = load_at([](unsigned i) { return i; });
    CHECK(coalesced.loads.instructions == 1);
    CHECK(coalesced.loads.bytes == 128);
    CHECK(coalesced.loads.units == 4);
    CHECK(coalesced.loads.ideal == 4);
    CHECK(coalesced.distinct_bytes_read == 128);
    CHECK(coalesced.distinct_sectors_read == 4);

    CHECK(load_at([](unsigned i) { return 2 * i; }).loads.units == 8);
    CHECK(load_at([](unsigned i) { return 2 * i; }).loads.ideal == 4);
    CHECK(load_at([](unsigned i) { return 32 * i; }).loads.units == 32);
    CHECK(load_at([](unsigned i) { return 31 - i; }).loads.units == 4);
    CHECK(load_at([](unsigned i) { return i * 7 % 32; }).loads.units == 4);
    CHECK(load_at([](unsigned i) { return i + 1; }).loads.units == 5);  // over a border
    const auto same = load_at([](unsigned) { return 0; });
    CHECK(same.loads.units == 1);
    CHECK(same.loads.ideal == 1);
    CHECK(same.loads.bytes == 128);
    CHECK(same.distinct_bytes_read == 4);
}

TEST_CASE("simt: sectors of vector loads and stores") {
    Arrays a;
    const auto c = count(64, [&] {
        store(a.out + 4 * tid(), load<float4>(a.in + 4 * tid()));
        store(a.out + 1024 + 2 * tid(), load_streaming<float2>(a.in + 1024 + 2 * tid()));
    });
    CHECK(c.buffer("x").loads.instructions == 4);
    CHECK(c.buffer("x").loads.bytes == 64 * 24);
    CHECK(c.buffer("x").loads.units == 64 * 24 / 32);
    CHECK(c.buffer("x").loads.ideal == 64 * 24 / 32);
    CHECK(c.buffer("y").stores.units == 64 * 24 / 32);
    CHECK(c.buffer("y").distinct_bytes_written == 64 * 24);
    CHECK(c.buffer("y").distinct_bytes_read == 0);
    CHECK(c.global_loads().bytes == 64 * 24);
    CHECK(c.global_stores().excess() == 0);
}

TEST_CASE("simt: what is read again counts again, but not as distinct") {
    Arrays a;
    const Report r = run_body({8}, {32}, [&] {
        for (int i = 0; i < 3; ++i) (void)load<float>(a.in + tid());
    });
    const auto x = r.counters("body").buffer("x");
    CHECK(x.loads.units == 8 * 3 * 4);
    CHECK(x.distinct_sectors_read == 4);
    // The next launch starts from nothing.
    CHECK(count(32, [&] { (void)load<float>(a.in + tid()); }).buffer("x").distinct_bytes_read ==
          128);
}

TEST_CASE("simt: lanes that go different ways still share instructions") {
    Arrays a;
    const auto c = count(32, [&] {
        if (tid() % 2 == 0) (void)load<float>(a.in + tid());
        (void)load<float>(a.in + 64 + tid());
        for (unsigned i = 0; i < tid() % 4; ++i) (void)load<float>(a.in + 1024 * i + tid());
    });
    // 1 with half of the lanes, 1 with all, and as many as the longest loop has.
    CHECK(c.buffer("x").loads.instructions == 5);
    CHECK(c.buffer("x").loads.units == 4 + 4 + 3 * 4);
    CHECK(c.buffer("x").loads.bytes == 16 * 4 + 128 + (24 + 16 + 8) * 4);
}

TEST_CASE("simt: long loops between barriers do not disturb the counts") {
    Arrays a;
    const auto c = count(64, [&] {
        for (unsigned i = 0; i < 300; ++i) (void)load<float>(a.in + 64 * i + tid());
    });
    CHECK(c.buffer("x").loads.instructions == 600);
    CHECK(c.buffer("x").loads.units == 2400);
}

// Bank conflicts: wavefronts of one warp's access to words at these indices.
Traffic shared_traffic(std::function<unsigned(unsigned)> index) {
    return count(32,
                 [index] {
                     const auto s = dynamic_shared<float>(0, 8192);
                     s[index(tid())] = 1;
                     __syncwarp();
                 })
        .shared[static_cast<std::size_t>(Op::kStore)];
}

TEST_CASE("simt: bank conflicts of words") {
    for (const unsigned stride : {1U, 2U, 4U, 8U, 16U, 32U}) {
        CHECK(shared_traffic([=](unsigned i) { return stride * i; }).units == stride);
        CHECK(shared_traffic([=](unsigned i) { return stride * i; }).ideal == 1);
        // A row padded by one word has none.
        CHECK(shared_traffic([=](unsigned i) { return stride * i + stride * i / 32; }).excess() ==
              0);
    }
    CHECK(shared_traffic([](unsigned i) { return 33 * i; }).units == 1);
    CHECK(shared_traffic([](unsigned i) { return i ^ 5U; }).units == 1);
    const auto broadcast = count(32, [] {
        const auto s = dynamic_shared<float>(0, 64);
        s[tid()] = 1, s[32 + tid()] = 1;
        __syncwarp();
        (void)load<float>(s);
        (void)load<float>(s + 32 * (tid() % 2));
    });
    CHECK(broadcast.shared[static_cast<std::size_t>(Op::kLoad)].units == 1 + 2);
    CHECK(broadcast.bank_conflicts() == 1);
}

TEST_CASE("simt: bank conflicts of 2-, 8- and 16-byte accesses") {
    const auto stores = [](auto value, unsigned stride) {
        return count(32,
                     [value, stride] {
                         const auto s =
                             reinterpret<decltype(value)>(dynamic_shared<float>(0, 8192));
                         s[stride * tid()] = value;
                     })
            .shared[static_cast<std::size_t>(Op::kStore)];
    };
    CHECK(stores(std::uint16_t{1}, 1).units == 1);
    CHECK(stores(std::uint16_t{1}, 2).units == 1);
    CHECK(stores(std::uint16_t{1}, 4).units == 2);
    CHECK(stores(float2{}, 1).units == 2);  // two half-warps
    CHECK(stores(float2{}, 1).ideal == 2);
    CHECK(stores(float2{}, 2).units == 4);
    CHECK(stores(float4{}, 1).units == 4);  // four quarter-warps
    CHECK(stores(float4{}, 2).units == 8);
    CHECK(stores(float4{}, 8).units == 32);
    CHECK(stores(float4{}, 9).units == 4);
}

TEST_CASE("simt: ldmatrix has conflicts if 8 rows share banks") {
    const auto rows = [](unsigned stride_bytes) {
        return count(32, [stride_bytes] {
            const auto s = dynamic_shared<std::uint32_t>(0, 8192);
            for (unsigned i = tid(); i < 8192; i += 32) s[i] = 0;
            __syncwarp();
            FragA a;
            ldmatrix_x4(a, s + stride_bytes / 4 * tid());
        });
    };
    CHECK(rows(16).instructions.ldmatrix == 1);
    CHECK(rows(16).shared[static_cast<std::size_t>(Op::kLdmatrix)].units == 4);
    CHECK(rows(80).shared[static_cast<std::size_t>(Op::kLdmatrix)].excess() == 0);
    CHECK(rows(144).shared[static_cast<std::size_t>(Op::kLdmatrix)].excess() == 0);
    CHECK(rows(64).shared[static_cast<std::size_t>(Op::kLdmatrix)].units == 16);
    CHECK(rows(128).shared[static_cast<std::size_t>(Op::kLdmatrix)].units == 32);
    CHECK(rows(592).shared[static_cast<std::size_t>(Op::kLdmatrix)].excess() == 0);
}

TEST_CASE("simt: copies to shared memory count as loads and as shared stores") {
    Arrays a;
    const auto c = count(32, [&] {
        cp_async<16>(dynamic_shared<float>(0, 128) + 4 * tid(), a.in + 4 * tid());
        cp_async_commit();
        cp_async_wait<0>();
        if (tid() != 0) return;
        const auto barrier = dynamic_shared<std::uint64_t>(1024, 1);
        mbarrier_init(barrier, 1);
        mbarrier_arrive_expect_tx(barrier, 96);
        cp_async_bulk(dynamic_shared<float>(512, 24), a.in + 1028, 96, barrier);
        mbarrier_wait(barrier, 0);
    });
    CHECK(c.buffer("x").loads.bytes == 512 + 96);
    CHECK(c.buffer("x").loads.units == 16 + 4);  // 96 bytes from the middle of a sector
    CHECK(c.buffer("x").loads.ideal == 16 + 3);
    CHECK(c.buffer("x").distinct_bytes_read == 512 + 96);
    CHECK(c.shared[static_cast<std::size_t>(Op::kAsyncCopy)].units == 4);
}

TEST_CASE("simt: instructions are counted once per warp") {
    const auto c = count(64, [] {
        FragA a = {};
        FragB b = {};
        FragC d = {};
        for (int i = 0; i < 3; ++i) mma_bf16(d, a, b);
        mma_f16(d, a, b);
        mma_e4m3(d, a, b);
        __shfl_sync(~0U, 1, 0);
        __ballot_sync(~0U, 1);
        __syncwarp();
        __syncthreads();
    });
    CHECK(c.instructions.mma_bf16 == 6);
    CHECK(c.instructions.mma_f16 == 2);
    CHECK(c.instructions.mma_e4m3 == 2);
    CHECK(c.instructions.mma() == 10);
    CHECK(c.instructions.shuffles == 2);
    CHECK(c.instructions.votes == 2);
    CHECK(c.instructions.warp_barriers == 2);
    CHECK(c.instructions.block_barriers == 1);
}

TEST_CASE("simt: traffic is kept by line of source") {
    Arrays a;
    const auto c = count(32, [&] {
        (void)load<float>(a.in + tid());
        a.out[tid()] = 1;
    });
    REQUIRE(c.sites.size() == 2);
    CHECK(c.sites[1].site.line == c.sites[0].site.line + 1);
    CHECK(c.sites[0].buffer == "x");
    CHECK(c.sites[1].op == Op::kStore);
    CHECK(c.sites[1].traffic.units == 4);
    CHECK(test::contains(c.sites_text(), "counters_test.cpp"));
    CHECK(test::contains(c.text(), "x"));
}

TEST_CASE("simt: without counters nothing is counted") {
    Arrays a;
    const Report r = run_body({1}, {32}, [&] { a.out[tid()] = a.in[tid()]; }, {.counters = false});
    check_clean(r);
    CHECK(r.counters("body").buffers.empty());
}

}  // namespace
}  // namespace kimi::simt::host
