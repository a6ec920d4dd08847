#include "placement/machine.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace kimi {
namespace {

constexpr double kMaxRate = 1e9, kMaxBytes = 1e15;

// One object of the file; every member must be asked for.
class Fields {
  public:
    Fields(const Json &object, std::string where, std::initializer_list<std::string_view> known)
        : object_(object), where_(std::move(where)) {
        if (!object.is(Json::Kind::object))
            fail(KIMI_INVALID_ARGUMENT, where_, "must be an object, is ", kind_name(object.kind));
        for (const auto &[key, value] : object.members)
            if (std::find(known.begin(), known.end(), key) == known.end()) bad(key, "is unknown");
    }

    const Json *find(std::string_view key) const { return object_.find(key); }
    std::string path(std::string_view key) const { return cat(where_, key, '.'); }
    const Json &at(std::string_view key) const {
        const Json *value = find(key);
        if (value == nullptr) bad(key, "is missing");
        return *value;
    }
    double number(std::string_view key, double min, double max) const {
        return number_of(at(key), key, min, max);
    }
    double number_or(std::string_view key, double otherwise, double min, double max) const {
        return find(key) == nullptr ? otherwise : number(key, min, max);
    }
    double number_of(const Json &value, std::string_view key, double min, double max) const {
        const bool is_number = value.is(Json::Kind::integer) || value.is(Json::Kind::real);
        if (!is_number || !(value.real >= min && value.real <= max))
            bad(key, "is ", dump_json(value), ", must be a number from ", min, " to ", max);
        return value.real;
    }
    template <typename T>
    T count(std::string_view key, double min, double max) const {
        const double value = number(key, min, max);
        if (!at(key).is(Json::Kind::integer)) bad(key, "is ", value, ", must be an integer");
        return static_cast<T>(value);
    }
    template <typename... Parts>
    [[noreturn]] void bad(std::string_view key, const Parts &...parts) const {
        fail(KIMI_INVALID_ARGUMENT, where_, key, ": ", parts...);
    }

  private:
    const Json &object_;
    std::string where_;
};

AllReduceRate read_all_reduce(const Json &json, const std::string &where) {
    const Fields in(json, where, {"one_shot_us", "two_shot_us", "measured", "bus_gb_per_s"});
    AllReduceRate out;
    const Json *measured = in.find("measured");
    if (measured == nullptr) {
        out.one_shot_us = in.number("one_shot_us", 0, kMaxRate);
        out.two_shot_us = in.number("two_shot_us", 0, kMaxRate);
        return out;
    }
    out.bus_gb_per_s = in.number("bus_gb_per_s", 1e-3, kMaxRate);
    for (const Json &point : measured->items) {
        if (point.items.size() != 2)
            in.bad("measured", "has ", dump_json(point), ", must be pairs of bytes and us");
        const double bytes = in.number_of(point.items[0], "measured", 1, kMaxBytes);
        const double us = in.number_of(point.items[1], "measured", 0, kMaxRate);
        if (!out.measured.empty() && bytes <= out.measured.back().first)
            in.bad("measured", "has ", bytes, " bytes after ", out.measured.back().first,
                   ", must ascend");
        out.measured.emplace_back(bytes, us);
    }
    if (out.measured.empty()) in.bad("measured", "is empty, must be pairs of bytes and us");
    return out;
}

ContextExchangeRate read_context_exchange(const Json &json, const std::string &where) {
    const Fields in(json, where, {"us", "at_tokens", "wire_factor"});
    return {in.number("us", 0, kMaxRate), in.number_or("at_tokens", 0, 0, 64),
            in.number("wire_factor", 0, 1000)};
}

Rates read_rates(const Json &json, const std::string &where) {
    const Fields in(
        json, where,
        {"memory_gb_per_s", "matmul_tflops", "attention_tflops", "all_reduce", "context_exchange"});
    Rates out;
    out.memory_gb_per_s = in.number("memory_gb_per_s", 1e-3, kMaxRate);
    out.matmul_tflops = in.number("matmul_tflops", 1e-6, kMaxRate);
    out.attention_tflops = in.number("attention_tflops", 1e-6, kMaxRate);
    out.all_reduce = read_all_reduce(in.at("all_reduce"), in.path("all_reduce"));
    out.context_exchange =
        read_context_exchange(in.at("context_exchange"), in.path("context_exchange"));
    return out;
}

}  // namespace

Machine read_machine(const std::string &path) {
    return parse_machine(read_file(path, std::size_t{1} << 20), path);
}

Machine parse_machine(std::string_view json, const std::string &path) {
    const Json root = parse_json(json, path);
    const Fields in(root, path + ": field ",
                    {"name", "devices", "multiprocessors", "memory_bytes", "reserved_bytes",
                     "link_gb_per_s", "ideal", "practical", "sources"});
    Machine out;
    if (!in.at("name").is(Json::Kind::string)) in.bad("name", "must be a string");
    out.name = in.at("name").text;
    out.devices = in.count<std::uint32_t>("devices", 1, 64);
    out.multiprocessors = in.count<std::uint32_t>("multiprocessors", 1, 65536);
    out.memory_bytes = in.count<std::uint64_t>("memory_bytes", 1, kMaxBytes);
    out.reserved_bytes =
        in.count<std::uint64_t>("reserved_bytes", 0, static_cast<double>(out.memory_bytes));
    out.link_gb_per_s = in.number("link_gb_per_s", 1e-3, kMaxRate);
    out.ideal = read_rates(in.at("ideal"), in.path("ideal"));
    out.practical = read_rates(in.at("practical"), in.path("practical"));
    return out;
}

double all_reduce_us(const Machine &machine, const Rates &rates, std::uint32_t ranks,
                     double bytes) {
    if (ranks == 1) return 0;
    const AllReduceRate &r = rates.all_reduce;
    const double others = ranks - 1;
    const double two_shot_bytes = 2 * others / ranks * bytes;
    const auto us_at = [](double n, double gb_per_s) { return n / gb_per_s * 1e-3; };
    if (r.measured.empty())
        return std::min(r.one_shot_us + us_at(others * bytes, machine.link_gb_per_s),
                        r.two_shot_us + us_at(two_shot_bytes, machine.link_gb_per_s));
    const auto above = std::lower_bound(r.measured.begin(), r.measured.end(), bytes,
                                        [](const auto &p, double n) { return p.first < n; });
    if (above == r.measured.begin()) return above->second;
    const auto below = above - 1;
    if (above == r.measured.end())
        return below->second +
               us_at(two_shot_bytes * (bytes - below->first) / bytes, r.bus_gb_per_s);
    const double share = (bytes - below->first) / (above->first - below->first);
    return below->second + share * (above->second - below->second);
}

}  // namespace kimi
