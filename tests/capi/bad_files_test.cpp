// What the library says to files that are missing, broken or contradict themselves.
#include "capi/bad_input.h"

using namespace bad_input;

namespace {

namespace fs = std::filesystem;

// nano-k2's folder, with files that may be replaced. The deployment has no drafter.
struct Copy {
    TempDir dir;
    Copy() {
        for (const auto &file : fs::directory_iterator(KIMI_MODELS "/nano-k2"))
            fs::create_symlink(file.path(), dir.file(file.path().filename()));
    }
    std::string bytes(const std::string &name) const {
        return kimi::read_file(dir.file(name), 1 << 30);
    }
    void write(const std::string &name, const std::string &text) const {
        fs::remove(dir.file(name));
        dir.write(name, text);
    }
};

constexpr char kConfig[] = "config.json";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kShard[] = "model-00002-of-000003.safetensors";
constexpr char kRanks[] = "tiktoken.model";

}  // namespace

TEST_CASE_FIXTURE(Silence, "bad input: files that are missing, unreadable or broken are named") {
    struct Case {
        const char *file;  // that is broken
        std::function<void(const Copy &)> damage;
        kimi_status status;
        const char *text;
    };
    const auto removed = [](const char *file) {
        return [=](const Copy &copy) { fs::remove(copy.dir.file(file)); };
    };
    const auto folder = [](const char *file) {
        return [=](const Copy &copy) {
            fs::remove(copy.dir.file(file));
            fs::create_directory(copy.dir.file(file));
        };
    };
    const auto holding = [](const char *file, std::string text) {
        return [=](const Copy &copy) { copy.write(file, text); };
    };
    const auto edited = [](const char *file, std::string from, std::string to) {
        return [=](const Copy &copy) {
            std::string text = copy.bytes(file);
            REQUIRE(contains(text, from));
            copy.write(file, text.replace(text.find(from), from.size(), to));
        };
    };
    const Case cases[] = {
        {kConfig, removed(kConfig), KIMI_NOT_FOUND, "cannot open"},
        {kConfig, folder(kConfig), KIMI_IO, "not a regular file"},
        {kConfig, holding(kConfig, ""), KIMI_CORRUPT, "invalid JSON"},
        {kConfig, edited(kConfig, "\"n_group\": 1", "\"n_group\": 8"), KIMI_UNSUPPORTED,
         "text_config.n_group: is 8, only 1 is supported"},
        {kConfig, edited(kConfig, "\"hidden_size\": 256,", ""), KIMI_CORRUPT,
         "text_config.hidden_size: is missing"},
        {kRanks, removed(kRanks), KIMI_NOT_FOUND, "cannot open"},
        {kRanks, folder(kRanks), KIMI_IO, "not a regular file"},
        {kRanks, holding(kRanks, "rubbish\n"), KIMI_CORRUPT, "rubbish"},
        {kIndex, folder(kIndex), KIMI_IO, "not a regular file"},
        {kIndex, holding(kIndex, "{"), KIMI_CORRUPT, "invalid JSON"},
        {kIndex, edited(kIndex, kShard, "../escape"), KIMI_CORRUPT,
         "must be a file name, is \"../escape\""},
        {kShard, removed(kShard), KIMI_NOT_FOUND, "cannot open"},
        {kShard, folder(kShard), KIMI_IO, "not a regular file"},
        {kShard, holding(kShard, "thirty-seven bytes are not a checkpoint"), KIMI_CORRUPT,
         "header length is"},
        {kShard, edited(kShard, "\"BF16\"", "\"BF17\""), KIMI_CORRUPT, "dtype is \"BF17\""},
        {kShard, edited(kShard, ",\"shape\":[", ",\"shape\":[9"), KIMI_CORRUPT, "does not fit"},
        {kShard, edited(kShard, "kv_a_layernorm", "kv_b_layernorm"), KIMI_CORRUPT,
         "kv_b_layernorm.weight is not in the index"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.file);
        const Copy copy;
        c.damage(copy);
        expect(c.status, copy.dir.file(c.file) + ":",
               [&](auto *e) { return create(copy.dir.path(), e); });
        expect(c.status, c.text, [&](auto *e) { return create(copy.dir.path(), e); });
    }
}

TEST_CASE_FIXTURE(Silence, "bad input: deployments that are wrong or point nowhere are named") {
    const TempDir dir;
    struct Case {
        const char *json;
        kimi_status status;
        std::string text;
    };
    const std::string file = dir.file("d.json");
    const std::string model = "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\"";
    const std::string with_field = model + ", \"cheese\": 1}";
    const std::string with_drafter = model + ", \"drafter\": \"nowhere\"}";
    const std::string with_context = model + ", \"context_limit\": 300000}";
    const Case cases[] = {
        {"", KIMI_INVALID_ARGUMENT, file + ": invalid JSON"},
        {"{\"checkpoint\": \"\xff\"}", KIMI_INVALID_ARGUMENT, file + ": invalid JSON at byte 17"},
        {"{}", KIMI_INVALID_ARGUMENT, file + ": field checkpoint: is missing"},
        {R"({"checkpoint": "nowhere"})", KIMI_NOT_FOUND, dir.file("nowhere/config.json")},
        {R"({"checkpoint": "d.json"})", KIMI_NOT_FOUND, dir.file("d.json/config.json")},
        {with_field.c_str(), KIMI_INVALID_ARGUMENT, file + ": field cheese: is unknown"},
        {with_drafter.c_str(), KIMI_NOT_FOUND, dir.file("nowhere/config.json")},
        {with_context.c_str(), KIMI_INVALID_ARGUMENT, "field context_limit: is 300000"},
    };
    for (const Case &c : cases) {
        dir.write("d.json", c.json);
        expect(c.status, c.text, [&](auto *e) { return create(file, e); });
    }
    expect(KIMI_NOT_FOUND, dir.file("none"), [&](auto *e) { return create(dir.file("none"), e); });
    expect(KIMI_NOT_FOUND, dir.path(), [&](auto *e) { return create(dir.path(), e); });
    expect(KIMI_NOT_FOUND, dir.path(), [&](auto *e) {
        kimi_tokenizer *tokenizer = nullptr;
        return kimi_tokenizer_create(dir.path().c_str(), &tokenizer, e);
    });
}

TEST_CASE_FIXTURE(Silence, "bad input: loading stops where the progress callback says so") {
    struct Progress {
        std::uint64_t total = 0, last = 0, stop_at = 0;
        static int32_t call(void *user, std::uint64_t done, std::uint64_t total) {
            auto &p = *static_cast<Progress *>(user);
            CHECK(done >= p.last);
            p.last = done;
            p.total = total;
            return done >= p.stop_at;
        }
    } progress;
    std::uint64_t file_bytes = 0;
    for (const auto &file : fs::directory_iterator(KIMI_MODELS "/nano-k2"))
        if (file.path().extension() == ".safetensors") file_bytes += file.file_size();

    const std::string folder = KIMI_MODELS "/nano-k2";
    kimi_engine_options options;
    kimi_engine_options_init(&options);
    options.deployment = folder.c_str();
    options.progress = Progress::call;
    options.user = &progress;
    for (const std::uint64_t stop_at : {std::uint64_t{0}, std::uint64_t{1}, file_bytes}) {
        progress = {0, 0, stop_at};
        kimi_engine *engine = nullptr;
        CHECK(kimi_engine_create(&options, &engine, nullptr) == KIMI_CANCELLED);
        CHECK(engine == nullptr);
        CHECK(progress.total == file_bytes);
        CHECK(progress.last >= stop_at);
    }
}

TEST_CASE_FIXTURE(Silence, "bad input: a NaN weight ends the reply with KIMI_NUMERIC") {
    const Copy copy;
    const std::string head_shard = "model-00003-of-000003.safetensors";
    std::string bytes = copy.bytes(head_shard);
    bytes[bytes.size() - 1] = '\x7f';  // the last value of the last token's row of lm_head
    bytes[bytes.size() - 2] = '\xc0';
    copy.write(head_shard, bytes);
    const client::Engine engine = client::load(copy.dir.path());
    const client::Session session = client::open(engine.get());
    kimi_step step;
    kimi_step_init(&step);
    for (int reply = 0; reply < 2; ++reply) {
        client::append(session.get(), {300, 301});
        client::ErrorRecord error;
        CHECK(kimi_decode_step(session.get(), &step, &error) == KIMI_NUMERIC);
        CHECK(error.status == KIMI_NUMERIC);
        CHECK(std::string(error.message) == "the model's logit of token 4095 is NaN");
        CHECK(step.status == KIMI_NUMERIC);
        CHECK(step.phase == KIMI_PHASE_FINISHED);
        CHECK(step.finish_reason == KIMI_FINISH_ERROR);
        CHECK(step.n_tokens == 0);
        // The finished state repeats until something is appended.
        CHECK(kimi_decode_step(session.get(), &step, &error) == KIMI_OK);
        CHECK(step.finish_reason == KIMI_FINISH_ERROR);
        CHECK(step.n_tokens == 0);
    }
}
