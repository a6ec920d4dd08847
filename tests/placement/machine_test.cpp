#include "placement/machine.h"

#include "fixtures.h"

using namespace kimi;
using namespace kimi::test;

namespace {

constexpr std::string_view kMachine = R"({"name": "m", "devices": 2, "multiprocessors": 10,
  "memory_bytes": 1000, "reserved_bytes": 100, "link_gb_per_s": 10,
  "ideal": {"memory_gb_per_s": 100, "matmul_tflops": 1, "attention_tflops": 1,
    "all_reduce": {"one_shot_us": 3, "two_shot_us": 5},
    "context_exchange": {"us": 4, "wire_factor": 1}},
  "practical": {"memory_gb_per_s": 100, "matmul_tflops": 1, "attention_tflops": 1,
    "all_reduce": {"measured": [[1000, 10], [2000, 14]], "bus_gb_per_s": 5},
    "context_exchange": {"us": 4, "at_tokens": 1, "wire_factor": 1}}})";

std::string replaced(std::string_view from, std::string_view to) {
    std::string json(kMachine);
    const std::size_t at = json.find(from);
    REQUIRE(at != std::string::npos);
    return json.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("machine: all-reduces take the published times") {
    const Machine machine = rtx();
    CHECK(machine.devices == 8);
    CHECK(machine.multiprocessors == 188);
    // 1, 4, 9, 16 and 32 rows of 7168 bf16.
    const double measured[][2] = {
        {14336, 11.8}, {57344, 24.5}, {129024, 32}, {229376, 37}, {458752, 55}};
    for (const auto &[bytes, us] : measured)
        CHECK(all_reduce_us(machine, machine.practical, 8, bytes) == doctest::Approx(us));
    // sm120_roofline.py: wire time 1.8 us one-shot, 4.1 us two-shot at 55 GB/s.
    check_near(all_reduce_us(machine, machine.ideal, 8, 14336), 3 + 1.8);
    check_near(all_reduce_us(machine, machine.ideal, 8, 129024), 5 + 4.1);
    CHECK(all_reduce_us(machine, machine.ideal, 1, 129024) == 0);
}

TEST_CASE("machine: measured all-reduces are interpolated") {
    const Machine machine = parse_machine(kMachine, "m.json");
    const auto us = [&](double bytes) {
        return all_reduce_us(machine, machine.practical, 2, bytes);
    };
    CHECK(us(10) == 10);
    CHECK(us(1000) == 10);
    CHECK(us(1500) == doctest::Approx(12));
    CHECK(us(2000) == 14);
    // 2 (R - 1) / R = 1 times the further bytes over the bus.
    CHECK(us(12000) == doctest::Approx(14 + 10000 / 5.0 * 1e-3));
}

TEST_CASE("machine: what is wrong with a file is named") {
    const std::pair<std::string, const char *> cases[] = {
        {"[]", "m.json: field must be an object, is an array"},
        {replaced("\"devices\": 2, ", ""), "m.json: field devices: is missing"},
        {replaced("\"devices\": 2", "\"devices\": 0"),
         "field devices: is 0, must be a number from 1 to 64"},
        {replaced("\"devices\": 2", "\"devices\": 2.5"),
         "field devices: is 2.5, must be an integer"},
        {replaced("\"devices\": 2", "\"devices\": \"2\""),
         "field devices: is \"2\", must be a number"},
        {replaced("\"devices\"", "\"device\""), "field device: is unknown"},
        {replaced("\"name\": \"m\"", "\"name\": 1"), "field name: must be a string"},
        {replaced("\"reserved_bytes\": 100", "\"reserved_bytes\": 2000"),
         "field reserved_bytes: is 2000, must be a number from 0 to 1000"},
        {replaced("\"link_gb_per_s\": 10", "\"link_gb_per_s\": 0"), "field link_gb_per_s: is 0"},
        {replaced("\"memory_gb_per_s\": 100", "\"memory_gb_per_s\": -1"),
         "field ideal.memory_gb_per_s: is -1"},
        {replaced("\"two_shot_us\": 5", "\"two_shots_us\": 5"),
         "field ideal.all_reduce.two_shots_us: is unknown"},
        {replaced(", \"bus_gb_per_s\": 5", ""),
         "field practical.all_reduce.bus_gb_per_s: is missing"},
        {replaced("[[1000, 10], [2000, 14]]", "[]"),
         "field practical.all_reduce.measured: is empty"},
        {replaced("[2000, 14]", "[500, 14]"),
         "field practical.all_reduce.measured: has 500 bytes after 1000, must ascend"},
        {replaced("[2000, 14]", "[2000]"), "field practical.all_reduce.measured: has [2000]"},
        {replaced("\"at_tokens\": 1", "\"at_tokens\": -1"),
         "field practical.context_exchange.at_tokens: is -1"},
        {"{", "m.json"},
    };
    for (const auto &wrong : cases) {
        const auto &json = wrong.first;
        const auto &text = wrong.second;
        const Error error = error_of([&] { parse_machine(json, "m.json"); });
        CAPTURE(error.text);
        CAPTURE(text);
        CHECK(error.status == KIMI_INVALID_ARGUMENT);
        CHECK(contains(error.text, text));
    }
    CHECK(error_of([] { read_machine("/nonexistent/m.json"); }).status == KIMI_NOT_FOUND);
}
