#include "tools/heatmap/trace.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace kimi::heatmap {
namespace {

constexpr double kMaxRanks = 1024;

class Reader {
  public:
    explicit Reader(const std::string &name) : name_(name) {}

    Trace read(const Json &root) {
        const Json *events = root.find("traceEvents");
        if (events == nullptr || !events->is(Json::Kind::array))
            bad("has no array traceEvents: it is not a trace");
        for (const Json &event : events->items) {
            ++index_;
            if (text(event, "ph") == "X") complete_event(event);
        }
        if (trace_.end == 0) bad("has no steps");
        return std::move(trace_);
    }

  private:
    void complete_event(const Json &event) {
        const double rank = number(event, "pid");
        if (!(rank >= 0 && rank < kMaxRanks)) bad("pid is ", rank, ", must be below ", kMaxRanks);
        const auto r = static_cast<std::size_t>(rank);
        if (trace_.ranks.size() <= r) trace_.ranks.resize(r + 1);
        std::vector<Step> &steps = trace_.ranks[r];
        const std::string &name = text(event, "name");
        if (name == "prefill" || name == "decode") {
            step(event, name == "decode", steps);
        } else if (name == "collectives") {
            if (steps.empty()) bad("collectives before the first step");
            collectives(event, steps.back());
        }
    }

    void step(const Json &event, bool decode, std::vector<Step> &steps) {
        Step s;
        s.begin = number(event, "ts");
        s.end = s.begin + number(event, "dur");
        s.decode = decode;
        if (s.begin < (steps.empty() ? 0 : steps.back().begin) || s.end < s.begin)
            bad("the step begins before the one before it, or ends before it begins");
        steps.push_back(s);
        trace_.end = std::max(trace_.end, s.end);
    }

    void collectives(const Json &event, Step &step) {
        const double duration = step.end - step.begin;
        const double waited = duration > 0 ? number(event, "dur") / duration : 0;
        step.compute = std::clamp(1 - waited, 0.0, 1.0);
        step.link = std::clamp(waited, 0.0, 1.0);
        const Json *args = event.find("args");
        if (args == nullptr || args->find("link_share") == nullptr) return;
        step.link = std::clamp(number(*args, "link_share"), 0.0, 1.0);
        trace_.link_share = true;
    }

    double number(const Json &object, std::string_view key) const {
        const Json *value = object.find(key);
        if (value == nullptr || !(value->is(Json::Kind::real) || value->is(Json::Kind::integer)))
            bad(key, " must be a number");
        return value->real;
    }
    const std::string &text(const Json &object, std::string_view key) const {
        const Json *value = object.find(key);
        if (value == nullptr || !value->is(Json::Kind::string)) bad(key, " must be a string");
        return value->text;
    }
    template <typename... Parts>
    [[noreturn]] void bad(const Parts &...parts) const {
        const std::string place = index_ < 0 ? "" : cat("traceEvents[", index_, "]: ");
        fail(KIMI_CORRUPT, name_, ": ", place, parts...);
    }

    const std::string &name_;
    int index_ = -1;
    Trace trace_;
};

}  // namespace

Trace parse_trace(std::string_view json, const std::string &name) {
    return Reader(name).read(parse_json(json, name));
}

}  // namespace kimi::heatmap
