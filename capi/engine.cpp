#include "capi/boundary.h"
#include "capi/defaults.h"
#include "capi/handles.h"

using namespace kimi;
using namespace kimi::capi;

kimi_status kimi_engine_create(const kimi_engine_options *options, kimi_engine **out,
                               kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        const kimi_engine_options o =
            read_struct(options, default_engine_options(), sizeof(kimi_engine_options), "options");
        const Progress progress = [&](std::uint64_t done, std::uint64_t total) {
            if (o.progress != nullptr && o.progress(o.user, done, total) != 0)
                fail(KIMI_CANCELLED, "loading was stopped by the progress callback");
        };
        auto engine =
            std::make_shared<Engine>(&not_null(o.deployment, "options.deployment"), progress);
        kimi_tokenizer tokenizer{engine->tokenizer()};
        *out = new kimi_engine{std::move(engine), std::move(tokenizer)};
    });
}

void kimi_engine_destroy(kimi_engine *engine) noexcept {
    delete engine;
}

const kimi_tokenizer *kimi_engine_tokenizer(const kimi_engine *engine) noexcept {
    return engine == nullptr ? nullptr : &engine->tokenizer;
}
