#include "capi/step.h"

#include "capi/boundary.h"

namespace kimi::capi {

void write_step(const Session &session, void *out, std::size_t size) {
    const StepResult &result = session.result();
    kimi_step step = {};
    step.status = result.status;
    step.phase = result.phase;
    step.finish_reason = result.finish_reason;
    step.tokens = session.committed().data();
    step.n_tokens = session.committed().size();
    step.text = session.text().data();
    step.text_len = session.text().size();
    step.prompt_done = result.prompt_done;
    step.prompt_total = result.prompt_total;
    step.draft_nodes = result.draft_nodes;
    step.draft_accepted = result.draft_accepted;
    step.error = result.error.c_str();
    step.logprobs = session.logprobs().data();
    step.n_logprobs = session.logprobs().size();
    step.prompt_reused = result.prompt_reused;
    write_struct(out, size, step);
}

kimi_status report_step(const Session &session, kimi_error *error) noexcept {
    return report(error, session.result().status, session.result().error);
}

}  // namespace kimi::capi
