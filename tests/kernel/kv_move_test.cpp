#include "kernels/kv_move.h"

#include "kernels/kv_commit.h"
#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

std::vector<std::uint8_t> random_bytes(std::size_t n) {
    std::mt19937 random(1);
    std::vector<std::uint8_t> bytes(n);
    for (auto &b : bytes) b = static_cast<std::uint8_t>(random());
    return bytes;
}

// Moves tokens one after the other, byte by byte.
void compact(std::vector<std::uint8_t> &bytes, const KvPlanes &planes, std::uint32_t n_layers,
             std::size_t layer_bytes, const std::vector<std::uint32_t> &from,
             const std::vector<std::uint32_t> &to) {
    for (std::uint32_t layer = 0; layer < n_layers; ++layer) {
        for (std::size_t i = 0; i < from.size(); ++i) {
            for (std::uint32_t plane = 0; plane < kMaxKvPlanes; ++plane) {
                const auto place = [&](std::uint32_t cell) {
                    return layer * layer_bytes + cell / 64 * std::size_t{planes.page_bytes} +
                           planes.plane[plane].offset +
                           cell % 64 * std::size_t{planes.plane[plane].token_bytes};
                };
                std::memmove(&bytes[place(to[i])], &bytes[place(from[i])],
                             planes.plane[plane].token_bytes);
            }
        }
    }
}

TEST_CASE("kernel: kv_compact moves tokens of all layers, within a page and across pages") {
    const std::uint32_t n_layers = 3, n_pages = 4;
    for (const bool fp8 : {false, true}) {
        const KvPlanes planes = mla_planes(fp8);
        const std::size_t layer_bytes = std::size_t{n_pages} * planes.page_bytes;
        for (const std::uint32_t n : {0U, 1U, 7U, 8U, 9U, 63U}) {
            // Slots 62, 63, ... of a sequence in pages 2, 0, 3 get the tokens two, three, ... slots
            // behind.
            const std::uint32_t order[] = {2, 0, 3};
            const auto cell = [&](std::uint32_t slot) { return order[slot / 64] * 64 + slot % 64; };
            std::vector<std::uint32_t> from, to;
            for (std::uint32_t i = 0; i < n; ++i) {
                to.push_back(cell(62 + i));
                from.push_back(cell(62 + i + (i < 2 ? i : n < 63 ? 2 : 0)));
            }
            auto expected = random_bytes(n_layers * layer_bytes);
            Buffer<std::uint8_t> pages("pages", expected);
            compact(expected, planes, n_layers, layer_bytes, from, to);
            Buffer<std::uint32_t> from_device("from", 63), to_device("to", 63);
            from_device.upload(from);
            to_device.upload(to);
            const Buffer<std::uint32_t> n_moves("n_moves", one(n));
            check_clean(run([&] {
                kv_compact({pages.data(), static_cast<std::int64_t>(layer_bytes), n_layers, planes,
                            from_device.data(), to_device.data(), n_moves.data(), 63},
                           stream());
            }));
            CHECK(pages.download() == expected);
        }
    }
}

// The layers' bytes: `layers` apart, each begins with pages of so many tokens.
struct Paged {
    const KvPlanes &planes;
    std::size_t layer_bytes;

    std::size_t at(std::uint32_t layer, std::uint32_t plane, std::uint32_t page,
                   std::uint32_t token) const {
        return layer * layer_bytes + std::size_t{page} * planes.page_bytes +
               planes.plane[plane].offset + std::size_t{token} * planes.plane[plane].token_bytes;
    }
};

TEST_CASE("kernel: kv_commit writes rows of the pass to the cells that a shard holds") {
    const std::uint32_t n_layers = 3, n_pages = 4, n = 9;
    // Slots 60, 61, ... of a sequence in pages 2 and 0: the cells of several shards.
    std::vector<std::uint32_t> from, to;
    for (std::uint32_t i = 0; i < n; ++i) {
        from.push_back(5 + 6 * i);
        to.push_back(i < 4 ? 2 * 64 + 60 + i : i - 4);
    }
    for (const bool fp8 : {false, true}) {
        for (const KvShard shard : {KvShard{5, 0}, KvShard{5, 1}, KvShard{3, 0}, KvShard{1, 31}}) {
            const KvPlanes whole = mla_planes(fp8), part = mla_planes(fp8, shard.tokens());
            const Paged source{whole, whole.page_bytes},
                target{part, std::size_t{n_pages} * part.page_bytes};
            const auto rows = random_bytes(n_layers * source.layer_bytes);
            std::vector<std::uint8_t> expected(n_layers * target.layer_bytes, 7);
            const Buffer<std::uint8_t> fresh("fresh", rows);
            Buffer<std::uint8_t> pages("pages", expected);
            std::uint32_t n_held = 0;
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint32_t place = to[i] % 64;
                if (place / shard.tokens() != shard.shard) continue;
                ++n_held;
                for (std::uint32_t layer = 0; layer < n_layers; ++layer) {
                    for (std::uint32_t plane = 0; plane < kMaxKvPlanes; ++plane) {
                        std::memcpy(
                            &expected[target.at(layer, plane, to[i] / 64, place % shard.tokens())],
                            &rows[source.at(layer, plane, 0, from[i])],
                            whole.plane[plane].token_bytes);
                    }
                }
            }
            CHECK(n_held > 0);
            CHECK(n_held < n);
            Buffer<std::uint32_t> from_device("from", 63), to_device("to", 63);
            from_device.upload(from);
            to_device.upload(to);
            const Buffer<std::uint32_t> n_moves("n_moves", one(n));
            check_clean(run([&] {
                kv_commit({fresh.data(), pages.data(),
                           static_cast<std::int64_t>(target.layer_bytes), n_layers, fp8, shard,
                           from_device.data(), to_device.data(), n_moves.data(), 63},
                          stream());
            }));
            CHECK(pages.download() == expected);
        }
    }
}

TEST_CASE("kernel: kv_move copies whole pages of all layers") {
    for (const std::uint32_t page_bytes : {16U, 4096U, std::uint32_t{MlaFp8Page::kBytes}}) {
        const std::uint32_t n_layers = 2, n_pages = 5;
        const std::size_t layer_bytes = std::size_t{n_pages} * page_bytes + 32;
        auto expected = random_bytes(n_layers * layer_bytes);
        Buffer<std::uint8_t> pages("pages", expected);
        const std::vector<std::uint32_t> from = {4, 1}, to = {0, 3};
        for (std::uint32_t layer = 0; layer < n_layers; ++layer) {
            for (std::size_t i = 0; i < from.size(); ++i) {
                std::memcpy(&expected[layer * layer_bytes + to[i] * std::size_t{page_bytes}],
                            &expected[layer * layer_bytes + from[i] * std::size_t{page_bytes}],
                            page_bytes);
            }
        }
        const Buffer<std::uint32_t> from_device("from", from), to_device("to", to);
        const Report r = run([&] {
            kv_move({pages.data(), static_cast<std::int64_t>(layer_bytes), n_layers, page_bytes,
                     from_device.data(), to_device.data(), 2},
                    stream());
        });
        check_clean(r);
        CHECK(pages.download() == expected);
#ifdef KIMI_SIMT
        const auto traffic = r.counters("kv_move").buffer("pages");
        CHECK(traffic.loads.bytes == 2ULL * n_layers * page_bytes);
        CHECK(traffic.loads.excess() == 0);
        CHECK(traffic.stores.excess() == 0);
#endif
    }
}

TEST_CASE("kernel: kv_commit, kv_compact and kv_move fit their budgets") {
    check_budget("kernels/kv_commit.cu", {"kv_commit_kernel", 128, 0, 6});
    check_budget("kernels/kv_compact.cu", {"kv_compact_kernel", 128, 0, 6});
    check_budget("kernels/kv_move.cu", {"kv_move_kernel", 256, 0, 4});
}

}  // namespace
}  // namespace kimi::test
