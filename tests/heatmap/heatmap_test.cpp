#include "check.h"
#include "engine/engine.h"
#include "tools/heatmap/picture.h"

using namespace kimi;
using heatmap::draw;
using heatmap::parse_trace;

namespace {

struct Lane {
    std::string phase, rank, name;
    int y = 0;
    double busy = 0;  // sum of the cells' opacities over the columns
    int last_x = 0;
};

std::string attribute(const std::string &tag, const std::string &name) {
    const std::size_t at = tag.find(' ' + name + "=\"");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 3;
    return tag.substr(begin, tag.find('"', begin) - begin);
}

// Reads the picture as XML: tags must nest.
std::vector<Lane> lanes_of(const std::string &svg) {
    std::vector<Lane> lanes;
    std::vector<std::string> open;
    for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
        const std::string tag = svg.substr(at + 1, svg.find('>', at) - at - 1);
        const std::string name = tag.substr(0, tag.find_first_of(" /"));
        if (tag[0] == '/') {
            REQUIRE(!open.empty());
            CHECK(open.back() == tag.substr(1));
            open.pop_back();
            continue;
        }
        if (tag.back() != '/') open.push_back(name);
        if (attribute(tag, "class") == "lane")
            lanes.push_back({attribute(tag, "data-phase"), attribute(tag, "data-rank"),
                             attribute(tag, "data-lane")});
        if (name != "rect") continue;
        REQUIRE(!lanes.empty());
        lanes.back().y = std::stoi(attribute(tag, "y"));
        if (attribute(tag, "class") != "cell") continue;
        const int x = std::stoi(attribute(tag, "x"));
        CHECK(x > lanes.back().last_x);
        lanes.back().last_x = x;
        const double opacity = std::stod(attribute(tag, "fill-opacity"));
        CHECK(opacity > 0);
        CHECK(opacity <= 1);
        lanes.back().busy += opacity / heatmap::kColumns;
    }
    CHECK(open.empty());
    return lanes;
}

std::string event(int rank, int lane, double begin, double duration, const std::string &name,
                  const std::string &args = "") {
    return cat("{\"ph\": \"X\", \"pid\": ", rank, ", \"tid\": ", lane, ", \"ts\": ", begin,
               ", \"dur\": ", duration, ", \"name\": \"", name, "\", \"args\": {", args, "}}");
}

// Rank 0 computes all the time, rank 1 waits for it in half of the decode step.
std::string two_ranks(const std::string &link_args) {
    return "{\"traceEvents\": [" + event(0, 0, 0, 1000, "prefill") + "," +
           event(0, 0, 0, 400, "attention") + "," + event(0, 1, 1000, 0, "collectives", link_args) +
           "," + event(0, 0, 1000, 3000, "decode") + "," +
           event(0, 1, 4000, 0, "collectives", link_args) + "," + event(1, 0, 0, 1000, "prefill") +
           "," + event(1, 1, 1000, 0, "collectives", link_args) + "," +
           event(1, 0, 1000, 3000, "decode") + "," +
           event(1, 1, 2500, 1500, "collectives", link_args) + "]}";
}

}  // namespace

TEST_CASE("heatmap: prefill above decode, in both every rank's compute above its link") {
    const auto lanes = lanes_of(draw(parse_trace(two_ranks(""), "t")));
    REQUIRE(lanes.size() == 8);
    const char *names[] = {"compute", "link"};
    for (std::size_t i = 0; i < 8; ++i) {
        CHECK(lanes[i].phase == (i < 4 ? "prefill" : "decode"));
        CHECK(lanes[i].rank == std::to_string(i / 2 % 2));
        CHECK(lanes[i].name == names[i % 2]);
        if (i > 0) CHECK(lanes[i].y > lanes[i - 1].y);
    }
    const double busy[] = {0.25, 0, 0.25, 0, 0.75, 0, 0.375, 0.375};
    for (std::size_t i = 0; i < 8; ++i) {
        CAPTURE(i);
        CHECK(lanes[i].busy == doctest::Approx(busy[i]).epsilon(0.01));
    }
}

TEST_CASE("heatmap: the link shows its share where the trace knows it") {
    const auto lanes = lanes_of(draw(parse_trace(two_ranks("\"link_share\": 0.2"), "t")));
    for (const std::size_t link : {1U, 3U}) CHECK(lanes[link].busy == doctest::Approx(0.05));
    for (const std::size_t link : {5U, 7U}) CHECK(lanes[link].busy == doctest::Approx(0.15));
}

TEST_CASE("heatmap: many steps in one column add up") {
    std::string events;
    for (int i = 0; i < 2400; ++i)  // every second one's time passes without a step
        events.append(i > 0 ? "," : "").append(event(0, 0, 2 * i, 1, "decode"));
    const auto lanes = lanes_of(draw(parse_trace("{\"traceEvents\": [" + events + "]}", "t")));
    REQUIRE(lanes.size() == 4);
    CHECK(lanes[2].busy == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("heatmap: what is no trace is refused by name") {
    const auto text = [](const std::string &json) {
        return test::error_of([&] { parse_trace(json, "t.json"); }).text;
    };
    CHECK(test::contains(text("{"), "t.json"));
    CHECK(text("[]") == "t.json: has no array traceEvents: it is not a trace");
    CHECK(text("{\"traceEvents\": []}") == "t.json: has no steps");
    CHECK(text("{\"traceEvents\": [{\"ph\": \"X\"}]}") ==
          "t.json: traceEvents[0]: pid must be a number");
    CHECK(test::contains(text("{\"traceEvents\": [" + event(0, 1, 0, 1, "collectives") + "]}"),
                         "before the first step"));
    CHECK(test::contains(text("{\"traceEvents\": [" + event(0, 0, 5, -1, "decode") + "]}"),
                         "ends before it begins"));
    CHECK(test::contains(text("{\"traceEvents\": [" + event(5000, 0, 0, 1, "decode") + "]}"),
                         "pid is 5000"));
}

TEST_CASE("heatmap: a trace of the engine has the lanes of its rank") {
    const auto engine = std::make_shared<Engine>(test::nano() + "/deployment.json", Progress());
    SessionOptions options;
    options.max_tokens = 5;
    Session session(engine, options);
    session.append(std::vector<std::int32_t>{5, 6, 7, 8});
    Session *batch[] = {&session};
    while (session.result().phase != KIMI_PHASE_FINISHED) engine->step(batch);
    const auto lanes = lanes_of(draw(parse_trace(engine->trace(), "trace")));
    REQUIRE(lanes.size() == 4);
    CHECK(lanes[0].busy > 0);
    CHECK(lanes[2].busy > 0);
    CHECK(lanes[1].busy + lanes[3].busy == 0);  // one rank waits for nobody
}
