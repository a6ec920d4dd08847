#include "tests/simt/run.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "tests/simt/launch.h"

namespace kimi::simt::host {
namespace {

thread_local LaunchSink *launch_sink = nullptr;

class SinkScope {
  public:
    explicit SinkScope(LaunchSink &sink) : before_(set_launch_sink(&sink)) {}
    SinkScope(const SinkScope &) = delete;
    SinkScope &operator=(const SinkScope &) = delete;
    ~SinkScope() { set_launch_sink(before_); }

  private:
    LaunchSink *before_;
};

LaunchReport head_of(const Launch &launch) {
    return {launch.name, launch.grid, launch.block, launch.shared_bytes, {}};
}

// Moves what memory knows of the launch into its counters.
void take_memory(Counters &counters, const Tally &tally, bool keep) {
    for (const auto &[memory, range] : tally.touched()) {
        if (!memory->live) continue;
        const Distinct d =
            take_distinct(*memory, memory->offset_of(range.low), memory->offset_of(range.high));
        if (!keep) continue;
        for (BufferTraffic &b : counters.buffers) {
            if (b.name != memory->name) continue;
            b.distinct_bytes_read += d.bytes_read;
            b.distinct_bytes_written += d.bytes_written;
            b.distinct_sectors_read += d.sectors_read;
            b.distinct_sectors_written += d.sectors_written;
        }
    }
}

void take_faults(Report &report, const LaunchRun &run) {
    if (run.thrown) {
        forget_launch();
        std::rethrow_exception(run.thrown);
    }
    report.faults.insert(report.faults.end(), run.faults.begin(), run.faults.end());
}

bool refuse(Report &report, const LaunchRun &run) {
    const std::string why = run.refusal();
    if (why.empty()) return false;
    Fault fault;
    fault.kind = FaultKind::kBadLaunch;
    fault.kernel = run.launch.name;
    fault.detail = why;
    report.faults.push_back(std::move(fault));
    return true;
}

void run_all(Scheduler &scheduler) {
    while (!scheduler.idle()) scheduler.round();
}

// Runs every launch as it comes.
class RunNow : public LaunchSink {
  public:
    explicit RunNow(const Options &options) : options_(options) {}

    void launch(Launch launch) override {
        if (!report.clean()) return;
        Options options = options_;
        options.workers = launch.cooperative || launch.n_blocks() < 2 ? 1 : options.workers;
        LaunchRun run(std::move(launch), options);
        if (refuse(report, run)) return;
        LaunchReport &done = report.launches.emplace_back(head_of(run.launch));
        std::vector<Tally> tallies(options.workers);
        {
            std::vector<std::jthread> others;
            for (unsigned w = 1; w < options.workers; ++w) {
                others.emplace_back([&run, &tally = tallies[w]] { tally = work(run); });
            }
            tallies[0] = work(run);
        }
        for (const Tally &tally : tallies) tally.add_to(done.counters);
        for (const Tally &tally : tallies) take_memory(done.counters, tally, options.alone);
        take_faults(report, run);
        if (!report.clean()) forget_launch();
    }

    Report report;

  private:
    static Tally work(LaunchRun &run) {
        Scheduler scheduler(run.own_clock);
        scheduler.add(run);
        run_all(scheduler);
        return scheduler.take_tally(run);
    }

    Options options_;
};

class Collect : public LaunchSink {
  public:
    void launch(Launch launch) override { launches.push_back(std::move(launch)); }
    std::vector<Launch> launches;
};

void check_outputs(Report &report, const std::vector<const RawBuffer *> &outputs) {
    if (!report.clean()) return;
    for (const RawBuffer *output : outputs) {
        const Memory &m = output->memory();
        const std::uint8_t *begin = m.state.get(), *end = begin + m.bytes;
        const std::uint8_t *missing = std::find(begin, end, 0);
        if (missing == end) continue;
        Fault fault;
        fault.kind = FaultKind::kUnwrittenOutput;
        fault.kernel = report.launches.empty() ? "" : report.launches.back().name;
        fault.buffer = m.name;
        fault.offset = static_cast<std::uint64_t>(missing - begin);
        fault.detail = cat("buffer ", m.name, ", ", std::count(missing, end, 0), " of ", m.bytes,
                           " bytes, the first at ", fault.offset);
        report.faults.push_back(std::move(fault));
    }
}

}  // namespace

LaunchSink *set_launch_sink(LaunchSink *sink) {
    return std::exchange(launch_sink, sink);
}

void submit(Launch launch) {
    if (launch_sink == nullptr) fail(KIMI_INTERNAL, "launch of ", launch.name, " without a sink");
    launch_sink->launch(std::move(launch));
}

Report run(const std::function<void()> &enqueue, const Options &options) {
    RunNow sink(options);
    {
        const SinkScope scope(sink);
        enqueue();
    }
    check_outputs(sink.report, options.outputs);
    return std::move(sink.report);
}

Report run_together(const std::vector<std::function<void()>> &devices, const Options &options) {
    Options together = options;
    together.alone = false;
    together.workers = 1;
    Report report;
    std::vector<std::vector<std::unique_ptr<LaunchRun>>> queues;
    for (const auto &enqueue : devices) {
        Collect sink;
        const SinkScope scope(sink);
        enqueue();
        auto &queue = queues.emplace_back();
        for (Launch &l : sink.launches) {
            queue.push_back(std::make_unique<LaunchRun>(std::move(l), together));
            if (refuse(report, *queue.back())) return report;
        }
    }

    Clock clock;
    Scheduler scheduler(clock);
    std::vector<std::size_t> next(queues.size(), 0);
    const auto start_next = [&] {
        for (std::size_t q = 0; q < queues.size(); ++q) {
            const bool busy = next[q] > 0 && scheduler.runs(*queues[q][next[q] - 1]);
            if (!busy && next[q] < queues[q].size()) scheduler.add(*queues[q][next[q]++]);
        }
    };
    bool failed = false;
    for (start_next(); !scheduler.idle() && !failed; start_next()) {
        scheduler.round();
        for (const auto &queue : queues) {
            for (const auto &r : queue) failed |= r->failed();
        }
    }

    for (std::size_t q = 0; q < queues.size(); ++q) {
        for (std::size_t i = 0; i < next[q]; ++i) {
            LaunchRun &r = *queues[q][i];
            LaunchReport &done = report.launches.emplace_back(head_of(r.launch));
            const Tally tally = scheduler.take_tally(r);
            tally.add_to(done.counters);
            take_memory(done.counters, tally, false);
            take_faults(report, r);
        }
    }
    if (!report.clean()) forget_launch();
    check_outputs(report, options.outputs);
    return report;
}

bool Report::has(FaultKind kind) const {
    return std::any_of(faults.begin(), faults.end(),
                       [kind](const Fault &f) { return f.kind == kind; });
}

const Counters &Report::counters(const std::string &name) const {
    const LaunchReport *found = nullptr;
    for (const LaunchReport &l : launches) {
        if (l.name != name) continue;
        KIMI_CHECK(found == nullptr);
        found = &l;
    }
    KIMI_CHECK(found != nullptr);
    return found->counters;
}

std::string Report::faults_text() const {
    std::string out;
    for (const Fault &f : faults) out += f.text() + '\n';
    return out;
}

std::string Report::text() const {
    std::string out = faults_text();
    for (const LaunchReport &l : launches) {
        out += cat(l.name, " <<<", l.grid.x, 'x', l.grid.y, 'x', l.grid.z, ", ", l.block.x, 'x',
                   l.block.y, 'x', l.block.z, ", ", l.shared_bytes, ">>>\n", l.counters.text());
    }
    return out;
}

}  // namespace kimi::simt::host
