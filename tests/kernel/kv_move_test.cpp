#include "kernels/kv_move.h"

#include "kernels/kv_compact.h"
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

TEST_CASE("kernel: kv_compact and kv_move fit their budgets") {
    check_budget("kernels/kv_compact.cu", {"kv_compact_kernel", 128, 0, 6});
    check_budget("kernels/kv_move.cu", {"kv_move_kernel", 256, 0, 4});
}

}  // namespace
}  // namespace kimi::test
