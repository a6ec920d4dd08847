#include "model/target.h"

#include "model/goldens.h"
#include "model/harness.h"

using namespace kimi;
using test::Goldens;
using test::Harness;

TEST_CASE("forward: every instruction set agrees with the reference") {
    const Goldens goldens;
    for (const CpuIsa isa : {CpuIsa::scalar, CpuIsa::avx2, CpuIsa::avx512}) {
        if (!is_supported(isa)) continue;
        Harness harness(KvType::f32, isa, 3);
        for (const Json &prompt : goldens.prompts()) {
            const std::string &name = prompt.find("name")->text;
            if (name == "random-5000") continue;  // once is enough
            CAPTURE(name);
            CAPTURE(static_cast<int>(isa));
            const std::vector<std::int32_t> ids = test::ints(*prompt.find("ids"));
            // A sanitizer takes a call for each number of the plain code's vectors.
            if (test::kInstrumented && isa == CpuIsa::scalar && ids.size() > 200) continue;
            test::check_close(harness.prompt(ids), goldens.tensor(name + ".last_logits"),
                              Goldens::tolerance(prompt, KvType::f32, "last_logits"));
        }
    }
}

TEST_CASE("forward: a row has the same bits in any chunk") {
    const Goldens goldens;
    const std::vector<std::int32_t> ids = test::ints(*goldens.prompts()[5].find("ids"));
    Harness harness;
    const std::vector<float> whole = harness.prompt(ids, 256);
    for (const std::uint32_t chunk : {1U, 7U, 64U, 100U}) {
        if (test::kInstrumented && chunk != 7) continue;
        CAPTURE(chunk);
        CHECK(harness.prompt(ids, chunk) == whole);
    }
}

TEST_CASE("forward: tree rows have the same bits as the path decoded token by token") {
    // A prefix that leaves the tree across a page border, and a tree whose paths are interleaved.
    for (const std::uint32_t prefix : {5U, 60U, 64U, 127U}) {
        CAPTURE(prefix);
        std::vector<std::int32_t> tokens(prefix);
        std::iota(tokens.begin(), tokens.end(), 300);
        const std::int32_t node_token[] = {7, 11, 12, 21, 22, 111, 112, 31, 41, 1111};
        const std::uint32_t parent[] = {0, 0, 0, 1, 2,
                                        3, 3, 4, 7, 5};  // of node i, among rows before it
        Harness harness;
        harness.prompt(tokens);
        Harness::Rows tree;
        std::vector<std::vector<std::int32_t>> path;
        for (std::uint32_t i = 0; i < std::size(node_token); ++i) {
            const bool root = i == 0;
            path.push_back(root ? std::vector<std::int32_t>{} : path[parent[i]]);
            path[i].push_back(node_token[i]);
            const std::uint64_t word = (root ? 0 : tree.word[parent[i]]) | std::uint64_t{1} << i;
            tree.add(node_token[i], prefix + static_cast<std::uint32_t>(path[i].size()) - 1,
                     prefix + i, prefix, word);
        }
        const auto got = harness.run(tree, static_cast<std::uint32_t>(tree.token.size()));
        for (std::uint32_t i = 0; i < path.size(); ++i) {
            CAPTURE(i);
            std::vector<float> expected;
            for (std::uint32_t j = 0; j < path[i].size(); ++j)
                expected = harness.run(Harness::Rows::prompt({&path[i][j], 1}, prefix + j))[0];
            CHECK(got[i] == expected);
        }
    }
}
