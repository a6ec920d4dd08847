#include "engine/trace.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "base/error.h"

namespace kimi {
namespace {

enum Lane { kCompute = 0, kLink = 1 };

class Writer {
  public:
    Writer(std::int64_t origin, double link_gb_per_s) : origin_(origin), link_(link_gb_per_s) {}

    void rank(std::size_t rank, std::span<const StepRecord> steps) {
        rank_ = rank;
        name("process_name", kCompute, cat("rank ", rank));
        name("thread_name", kCompute, "compute");
        name("thread_name", kLink, "link");
        for (const StepRecord &step : steps) write(step);
    }
    std::string finish() { return std::move(out_); }

  private:
    void write(const StepRecord &s) {
        event(kCompute, s.decode_rows > 0 ? "decode" : "prefill", s.begin, s.duration(),
              cat("\"prompt_rows\": ", s.prompt_rows, ", \"decode_rows\": ", s.decode_rows,
                  ", \"experts_hit\": ", s.experts_hit, ", \"weight_bytes\": ", s.weight_bytes,
                  ", \"kv_bytes\": ", s.kv_bytes));
        std::int64_t at = s.begin;
        const auto part = [&](Lane lane, std::string_view name, std::int64_t ns,
                              const std::string &args = {}) {
            event(lane, name, at, ns, args);
            at += ns;
        };
        part(kCompute, "attention", s.attention);
        part(kCompute, "experts", s.experts);
        part(kCompute, "other", s.other());
        part(kLink, "collectives", s.collectives, link_args(s));
        if (s.gpu) write(*s.gpu);
    }
    void write(const GpuReading &r) {
        counters("busy (%)", r.at, {{"gpu", r.gpu_percent}, {"memory", r.memory_percent}});
        counters("PCIe (bytes/s)", r.at,
                 {{"sent", r.sent_bytes_per_s}, {"received", r.received_bytes_per_s}});
    }

    std::string link_args(const StepRecord &s) const {
        std::string args =
            cat("\"sent_bytes\": ", s.sent_bytes, ", \"received_bytes\": ", s.received_bytes);
        if (link_ > 0 && s.duration() > 0) {
            const auto bytes = static_cast<double>(std::max(s.sent_bytes, s.received_bytes));
            args += cat(", \"link_share\": ", bytes / (link_ * static_cast<double>(s.duration())));
        }
        return args;
    }

    void name(std::string_view kind, Lane lane, std::string_view name) {
        open();
        out_ += cat("{\"ph\": \"M\", \"pid\": ", rank_, ", \"tid\": ", int{lane}, ", \"name\": \"",
                    kind, "\", \"args\": {\"name\": \"", name, "\"}}");
    }
    void event(Lane lane, std::string_view name, std::int64_t begin, std::int64_t duration,
               const std::string &args) {
        open();
        out_ +=
            cat("{\"ph\": \"X\", \"pid\": ", rank_, ", \"tid\": ", int{lane},
                ", \"ts\": ", microseconds(begin - origin_), ", \"dur\": ", microseconds(duration),
                ", \"name\": \"", name, "\", \"args\": {", args, "}}");
    }
    void counters(
        std::string_view name, std::int64_t at,
        std::initializer_list<std::pair<std::string_view, std::optional<std::uint64_t>>> values) {
        std::string args;
        for (const auto &[key, value] : values)
            if (value) args += cat(args.empty() ? "" : ", ", '"', key, "\": ", *value);
        if (args.empty()) return;
        open();
        out_ += cat("{\"ph\": \"C\", \"pid\": ", rank_, ", \"ts\": ", microseconds(at - origin_),
                    ", \"name\": \"", name, "\", \"args\": {", args, "}}");
    }
    void open() {
        if (!out_.empty()) out_ += ",\n";
    }
    static std::string microseconds(std::int64_t ns) {
        const std::string digits = std::to_string(1000 + ns % 1000);
        return cat(ns / 1000, '.', std::string_view(digits).substr(1));
    }

    std::int64_t origin_;
    double link_;
    std::size_t rank_ = 0;
    std::string out_;
};

}  // namespace

std::string trace_json(std::span<const std::vector<StepRecord>> ranks, double link_gb_per_s) {
    std::int64_t origin = std::numeric_limits<std::int64_t>::max();
    for (const auto &steps : ranks)
        if (!steps.empty()) origin = std::min(origin, steps.front().begin);
    Writer writer(origin, link_gb_per_s);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) writer.rank(rank, ranks[rank]);
    return cat("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", writer.finish(), "\n]}\n");
}

}  // namespace kimi
