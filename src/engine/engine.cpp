#include "engine/engine.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <new>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "base/error.h"

namespace kimi {
namespace {

// Sessions that one pass can serve.
constexpr std::uint32_t kMaxLogits = 64;

unsigned available_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

std::unique_ptr<Device> make_device(const Deployment &deployment) {
    if (deployment.backend != Deployment::Backend::cpu)
        fail(KIMI_UNSUPPORTED, "field backend: this build of libkimi has no CUDA backend");
    const unsigned threads = deployment.threads > 0 ? deployment.threads : available_cores();
    return make_cpu_device(best_cpu_isa(), threads);
}

std::uint32_t context_limit(const Deployment &deployment, const ModelConfig &config) {
    if (deployment.context_limit == 0) return config.max_position;
    if (deployment.context_limit > config.max_position)
        fail(KIMI_INVALID_ARGUMENT, "field context_limit: is ", deployment.context_limit,
             ", the model's max_position_embeddings is ", config.max_position);
    return deployment.context_limit;
}

std::uint32_t n_pages(const Deployment &deployment, std::uint32_t context) {
    const std::uint64_t tokens =
        deployment.kv_capacity_tokens > 0 ? deployment.kv_capacity_tokens : context;
    return static_cast<std::uint32_t>(pages_for(tokens));
}

std::uint32_t max_rows(const Deployment &deployment) {
    return std::max(deployment.prefill_chunk, kMaxLogits);
}

}  // namespace

Engine::Engine(const std::string &deployment_path, const Progress &progress)
    : deployment_(read_deployment(deployment_path)),
      config_(read_model_config(deployment_.checkpoint + "/config.json")),
      tokenizer_(std::make_shared<const Tokenizer>(deployment_.checkpoint)),
      checkpoint_(Checkpoint::open_target(deployment_.checkpoint, progress)),
      weights_(load_target_weights(checkpoint_, config_,
                                   deployment_.qk_latent_norm_eps.value_or(config_.rms_eps))),
      context_limit_(kimi::context_limit(deployment_, config_)),
      device_(make_device(deployment_)),
      target_(
          std::make_unique<Target>(*device_, config_, weights_, max_rows(deployment_), kMaxLogits)),
      pool_(n_pages(deployment_, context_limit_)),
      plan_(max_rows(deployment_)),
      sampler_(config_.vocab) {
    if (static_cast<std::uint32_t>(tokenizer_->vocab_size()) > config_.vocab)
        fail(KIMI_CORRUPT, deployment_.checkpoint, "/tiktoken.model: has ",
             tokenizer_->vocab_size(), " tokens, config.json says vocab_size ", config_.vocab);
    DeviceLimits limits = target_->limits();
    limits.rows = max_rows(deployment_);
    limits.context = context_limit_;
    limits.kv.type = deployment_.kv_type == Deployment::KvType::f32 ? KvType::f32 : KvType::bf16;
    limits.kv.n_pages = pool_.n_pages();
    kv_ = limits.kv;
    device_->reserve(limits);
    work_.reserve(kMaxLogits);
}

Engine::~Engine() = default;

std::uint64_t Engine::kv_bytes_per_token() const { return kv_.n_layers * kv_.token_bytes(); }

bool Engine::is_stop(std::int32_t token) const {
    const auto stops = tokenizer_->stop_tokens();
    return std::find(stops.begin(), stops.end(), token) != stops.end();
}

std::string_view Engine::token_text(std::int32_t token) const {
    return token < tokenizer_->vocab_size() ? tokenizer_->token_bytes(token) : std::string_view();
}

void Engine::release_pages(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens) {
    const std::lock_guard lock(mutex_);
    pool_.shrink(pages, n_tokens);
}

void Engine::step(std::span<Session *const> sessions) {
    const std::lock_guard lock(mutex_);
    for (std::size_t next = 0; next < sessions.size();) {
        plan_.clear();
        work_.clear();
        for (; next < sessions.size() && work_.size() < kMaxLogits && plan_.rows_left() > 0; ++next)
            add_work(*sessions[next]);
        if (!work_.empty()) run_pass();
    }
}

// Adds what the session does next to the pass: a chunk of its prompt, or its last token.
void Engine::add_work(Session &session) {
    if (!session.begin_step()) return;
    try {
        if (broken_) fail(KIMI_INTERNAL, "the engine failed earlier and does no further work");
        const std::span<const std::int32_t> pending = session.pending();
        const auto n = static_cast<std::uint32_t>(
            std::min<std::size_t>({pending.size(), deployment_.prefill_chunk, plan_.rows_left()}));
        const bool wants_logits = n == pending.size();
        pool_.grow(session.pages(), session.n_cached() + n);
        const std::uint32_t logits =
            plan_.add_prompt(session.pages(), pending.first(n), session.n_cached(), wants_logits);
        work_.push_back({&session, n, wants_logits, logits});
    } catch (...) {
        const Error error = current_error();
        session.fail(error.status, error.text);
    }
}

void Engine::run_pass() {
    try {
        target_->forward(plan_.plan());
    } catch (...) {
        const Error error = current_error();
        broken_ = true;
        for (const Work &work : work_) work.session->fail(error.status, error.text);
        return;
    }
    for (const Work &work : work_) finish_work(work);
}

void Engine::finish_work(const Work &work) {
    Session &session = *work.session;
    session.processed(work.n_rows);
    if (!work.wants_logits) return;
    try {
        session.commit(sampler_.sample(target_->logits(work.logits), session.options().sampling,
                                       session.next_position()));
    } catch (...) {
        const Error error = current_error();
        session.fail(error.status, error.text);
    }
}

}  // namespace kimi
