// A tiny engine for the targets that use the public interface.
#pragma once

#include <kimi/kimi.h>

#include "fuzz/fuzz.h"

namespace kimi::fuzz {

inline kimi_engine *tiny_engine() {
    static kimi_engine *const engine = [] {
        const std::string path = tiny_model() + "/deployment.json";
        synth::write_text(path, R"({"checkpoint": ".", "drafter": "drafter", "threads": 1,
            "context_limit": 200, "prefill_chunk": 40, "kv": {"capacity_tokens": 448},
            "speculation": {"sessions": 2}})");
        kimi_engine_options options;
        kimi_engine_options_init(&options);
        options.deployment = path.c_str();
        kimi_engine *made = nullptr;
        expect(kimi_engine_create(&options, &made, nullptr) == KIMI_OK, "no engine");
        return made;
    }();
    return engine;
}

// A status that a caller may see while the engine is whole.
inline kimi_status checked(kimi_status status) {
    switch (status) {
        case KIMI_OK:
        case KIMI_INVALID_ARGUMENT:
        case KIMI_NOT_FOUND:
        case KIMI_CORRUPT:
        case KIMI_UNSUPPORTED:
        case KIMI_TOO_LONG:
        case KIMI_BUSY:
        case KIMI_VERSION_MISMATCH:
            return status;
        default:
            broken(cat("status ", status));
    }
}

inline void step(kimi_session *session) {
    kimi_step step;
    kimi_step_init(&step);
    const kimi_status status = checked(kimi_decode_step(session, &step, nullptr));
    expect(status == step.status, "a step's statuses differ");
    expect(step.prompt_done <= step.prompt_total, "more of the prompt is done than there is");
    expect(step.draft_accepted <= step.draft_nodes, "more is accepted than was drafted");
}

}  // namespace kimi::fuzz
