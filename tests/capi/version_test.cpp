#include <fstream>
#include <regex>

#include "capi/client.h"
#include "check.h"

TEST_CASE("version: text and number are the header's and the project's") {
    uint32_t number = 0;
    const std::string text = kimi_version(&number);
    CHECK(number == uint32_t{KIMI_VERSION_NUMBER});
    CHECK(text == std::to_string(number / 1000000) + '.' + std::to_string(number / 1000 % 1000) +
                      '.' + std::to_string(number % 1000));
    CHECK(kimi_version(nullptr) == text);
    const std::string build = kimi::read_file(kimi::test::source("meson.build"), 1 << 20);
    CHECK(build.find("version: '" + text + "'") != std::string::npos);
}

TEST_CASE("version: every status has the header's name") {
    const std::string header = kimi::read_file(kimi::test::source("include/kimi/kimi.h"), 1 << 20);
    const std::regex enumerator(R"((KIMI_[A-Z_]+) = (-?[0-9]+))");
    const std::size_t begin = header.find("KIMI_OK = 0"), end = header.find('}', begin);
    const std::string statuses = header.substr(begin, end - begin);
    int n = 0;
    for (std::sregex_iterator at(statuses.begin(), statuses.end(), enumerator), none; at != none;
         ++at, ++n)
        CHECK(kimi_status_name(std::stoi((*at)[2])) == (*at)[1].str());
    CHECK(n == 16);
    for (const kimi_status status : {1, -16, INT32_MIN})
        CHECK(kimi_status_name(status) == std::string("unknown status"));
}

TEST_CASE("version: features are those of the library and the machine") {
    for (const char *name : {"cpu", "drafter", "trace", "constraint", "logit_bias", "stop_strings",
                             "events", "background", "logprobs", "deadline"})
        CHECK(kimi_has_feature(name) == 1);
    for (const char *name : {"", "CPU", "cpu ", "cp", "tracer", "teleport"})
        CHECK(kimi_has_feature(name) == 0);
    CHECK(kimi_has_feature(nullptr) == 0);

    std::ifstream cpuinfo("/proc/cpuinfo");
    std::string line;
    while (std::getline(cpuinfo, line) && line.rfind("flags", 0) != 0) {
    }
    const auto has = [&](const std::string &flag) {
        return (line + ' ').find(' ' + flag + ' ') != std::string::npos;
    };
    CHECK(kimi_has_feature("avx2") == (has("avx2") && has("fma")));
    CHECK(kimi_has_feature("avx512") == (has("avx512f") && has("avx2") && has("fma")));
}

TEST_CASE("version: a backend that is no feature is refused by deployments") {
    const kimi::test::TempDir dir;
    const std::string path =
        dir.write("d.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"backend\": \"cuda\"}");
    kimi_engine_options options;
    kimi_engine_options_init(&options);
    options.deployment = path.c_str();
    kimi_engine *engine = nullptr;
    const kimi_status status = kimi_engine_create(&options, &engine, nullptr);
    kimi_engine_destroy(engine);
    // The backend is a library of its own, which may be missing or have no device.
    if (kimi_has_feature("cuda") == 0)
        CHECK((status == KIMI_NOT_FOUND || status == KIMI_UNSUPPORTED));
}
