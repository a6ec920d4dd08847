#include <limits>

#include "base/atomic_file.h"
#include "capi/boundary.h"
#include "capi/handles.h"
#include "capi/options.h"
#include "engine/estimate.h"

using namespace kimi;
using namespace kimi::capi;

kimi_status kimi_engine_create(const kimi_engine_options *options, kimi_engine **out,
                               kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        const kimi_engine_options o = read_struct(options, default_engine_options(), "options");
        const Progress progress = [&](std::uint64_t done, std::uint64_t total) {
            if (o.progress != nullptr && o.progress(o.user, done, total) != 0)
                fail(KIMI_CANCELLED, "loading was stopped by the progress callback");
        };
        const Host host{Log(o.log, o.log_user), read_heap(o)};
        auto engine =
            std::make_shared<Engine>(&not_null(o.deployment, "options.deployment"), progress, host);
        kimi_tokenizer tokenizer{engine->tokenizer()};
        *out = new kimi_engine{std::move(engine), std::move(tokenizer)};
    });
}

kimi_status kimi_deployment_estimate(const char *deployment, kimi_estimate *out,
                                     kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::size_t size = struct_size(out, "out");
        const Estimate e =
            estimate(read_deployment(&not_null(deployment, "deployment")), out->memory_bytes);
        kimi_estimate result = {};
        result.memory_bytes = e.device.total;
        result.devices = e.devices;
        result.weights_bytes = e.device.weights + e.device.drafter;
        result.workspace_bytes = e.device.workspace + e.device.graphs;
        result.kv_bytes = e.kv_bytes;
        result.kv_token_bytes = e.device.token;
        result.capacity_tokens = e.device.capacity_tokens;
        write_struct(out, size, result);
    });
}

void kimi_engine_destroy(kimi_engine *engine) noexcept {
    delete engine;
}

const kimi_tokenizer *kimi_engine_tokenizer(const kimi_engine *engine) noexcept {
    return engine == nullptr ? nullptr : &engine->tokenizer;
}

kimi_status kimi_engine_stats(kimi_engine *engine, kimi_engine_statistics *out,
                              kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::size_t size = struct_size(out, "out");
        Engine &e = *not_null(engine, "engine").engine;
        const KvStats stats = e.kv()->stats();
        kimi_engine_statistics result = {};
        result.pages = stats.n_pages;
        result.pages_free = stats.n_free;
        result.pages_cached = stats.n_cached;
        result.pages_evictable = stats.n_evictable;
        result.page_bytes = e.runner().memory().page_bytes();
        result.sessions = stats.n_sequences;
        result.session_pages = stats.n_used;
        result.session_runs = stats.n_runs;
        result.prefix_hits = stats.hits;
        result.prefix_tokens = stats.hit_tokens;
        result.pages_evicted = stats.evicted;
        result.pages_moved = stats.pages_moved;
        result.move_seconds = stats.move_seconds;
        const SchedulerStats done = e.stats();
        result.passes = done.passes;
        result.steps = done.steps;
        result.prompt_rows = done.prompt_rows;
        result.decode_rows = done.decode_rows;
        result.committed = done.committed;
        result.drafted = done.drafted;
        result.accepted = done.accepted;
        result.ranks = e.runner().n_ranks();
        result.memory_bytes = e.memory_bytes();
        write_struct(out, size, result);
    });
}

kimi_status kimi_engine_save_trace(kimi_engine *engine, const char *path,
                                   kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::string trace = not_null(engine, "engine").engine->trace();
        AtomicFile file(&not_null(path, "path"));
        file.write(trace.data(), trace.size());
        file.commit();
    });
}

kimi_status kimi_engine_defragment(kimi_engine *engine, kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(engine, "engine")
            .engine->kv()
            ->defragment(std::numeric_limits<double>::infinity());
    });
}
