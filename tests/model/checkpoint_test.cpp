#include "model/checkpoint.h"

#include "model/tiny.h"

using namespace kimi;
using test::TinyCheckpoint;

namespace {

constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kShard2[] = "model-00002-of-000003.safetensors";

// A written checkpoint.
struct Folder {
    test::TempDir dir;
    nlohmann::ordered_json index;

    explicit Folder(const TinyCheckpoint &checkpoint = {}) {
        checkpoint.write(dir);
        index = nlohmann::ordered_json::parse(read_file(dir.file(kIndex), 1 << 20));
    }
    void write_index() const { dir.write(kIndex, index.dump()); }
    Error error() const {
        return test::error_of([&] { Checkpoint::open_target(dir.path()); });
    }
};

}  // namespace

TEST_CASE("checkpoint: shards with an index, and the progress of opening them in bytes") {
    const Folder folder;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> steps;
    const Checkpoint checkpoint = Checkpoint::open_target(
        folder.dir.path(),
        [&](std::uint64_t done, std::uint64_t total) { steps.emplace_back(done, total); });
    CHECK(checkpoint.n_tensors() == folder.index["weight_map"].size());
    std::uint64_t total = 0;
    for (const synth::Shard &shard : TinyCheckpoint().shards)
        total += std::filesystem::file_size(folder.dir.file(shard.file));
    REQUIRE(steps.size() == 4);
    CHECK(steps.front() == std::pair{std::uint64_t{0}, total});
    CHECK(steps.back() == std::pair{total, total});
    CHECK(steps[1].first < steps[2].first);
}

TEST_CASE("checkpoint: one file without an index") {
    TinyCheckpoint tiny;
    synth::Shard all{"model.safetensors", {}};
    for (const synth::Shard &shard : tiny.shards)
        all.tensors.insert(all.tensors.end(), shard.tensors.begin(), shard.tensors.end());
    tiny.shards = {all};
    const Folder folder(tiny);
    std::filesystem::remove(folder.dir.file(kIndex));
    CHECK(test::LoadedTarget(folder.dir.path()).logits() == test::load(TinyCheckpoint()).logits());

    std::filesystem::remove(folder.dir.file("model.safetensors"));
    CHECK(folder.error().status == KIMI_NOT_FOUND);
    CHECK(test::contains(folder.error().text, folder.dir.file("model.safetensors")));
}

TEST_CASE("checkpoint: a missing or unreadable shard is named") {
    const Folder folder;
    std::filesystem::remove(folder.dir.file(kShard2));
    CHECK(folder.error().status == KIMI_NOT_FOUND);
    CHECK(test::contains(folder.error().text, folder.dir.file(kShard2)));
    std::filesystem::create_directory(folder.dir.file(kShard2));
    CHECK(folder.error().status == KIMI_IO);
    CHECK(test::contains(folder.error().text, folder.dir.file(kShard2) + ": not a regular file"));
}

TEST_CASE("checkpoint: a truncated shard is named with the tensor behind its end") {
    const Folder folder;
    std::filesystem::resize_file(folder.dir.file(kShard2),
                                 std::filesystem::file_size(folder.dir.file(kShard2)) - 1);
    CHECK(folder.error().status == KIMI_CORRUPT);
    const std::string last = TinyCheckpoint().shards[1].tensors.back().name;
    CHECK(test::contains(folder.error().text, cat(folder.dir.file(kShard2), ": tensor ", last)));
}

TEST_CASE("checkpoint: an index that is wrong in itself is named") {
    struct Case {
        const char *json, *text;
    };
    const Case cases[] = {
        {"", "invalid JSON at byte"},
        {"{\"weight_map\": {", "invalid JSON at byte"},
        {"[]", "weight_map must be an object"},
        {"{}", "weight_map must be an object"},
        {R"({"weight_map": []})", "weight_map must be an object"},
        {R"({"weight_map": {"model.w": 7}})", "weight_map.model.w must be a file name, is 7"},
        {R"({"weight_map": {"model.w": ""}})", "must be a file name, is \"\""},
        {R"({"weight_map": {"model.w": "a/b"}})", "must be a file name, is \"a/b\""},
        {R"({"weight_map": {"model.w": "/etc/passwd"}})", "must be a file name"},
        {R"({"weight_map": {"model.w": ".."}})", "must be a file name, is \"..\""},
        {R"({"weight_map": {"model.w": "..\\b"}})", "must be a file name"},
        {R"({"weight_map": {"model.w": "a\u0000b"}})", "must be a file name"},
        {R"({"weight_map": {"model.w": "a", "model.w": "b"}})",
         "the key \"model.w\" appears twice"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.json);
        const Folder folder;
        folder.dir.write(kIndex, c.json);
        CHECK(folder.error().status == KIMI_CORRUPT);
        CHECK(test::contains(folder.error().text, folder.dir.file(kIndex) + ": "));
        CHECK(test::contains(folder.error().text, c.text));
    }
}

TEST_CASE("checkpoint: an index and shards that disagree are named") {
    Folder folder;
    const std::string name = "language_model.model.layers.1.mlp.gate.weight";

    folder.index["weight_map"].erase(name);
    folder.write_index();
    CHECK(folder.error().status == KIMI_CORRUPT);
    CHECK(folder.error().text ==
          cat(folder.dir.file(kShard2), ": tensor ", name, " is not in the index"));

    // In another shard than the index says, or in none.
    folder.index["weight_map"][name] = "model-00001-of-000003.safetensors";
    folder.write_index();
    CHECK(folder.error().status == KIMI_CORRUPT);
    CHECK(folder.error().text == cat(folder.dir.file("model-00001-of-000003.safetensors"),
                                     ": tensor ", name,
                                     " is missing, although the index says it is here"));
}

TEST_CASE("checkpoint: shards that hold no text tensors are not opened") {
    Folder folder;
    folder.index["weight_map"]["vision_tower.patch_embed.proj.weight"] = "absent.safetensors";
    folder.write_index();
    CHECK_NOTHROW(Checkpoint::open_target(folder.dir.path()));
}
