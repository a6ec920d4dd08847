#include "engine/runner.h"

#include <algorithm>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "backend/cuda_backend.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/warm_up.h"
#include "kv/page_pool.h"
#include "model/dims.h"
#include "model/load_weights.h"

namespace kimi {
namespace {

// Even with a small prefill chunk a draft tree or a batch of sessions fits one pass.
constexpr std::uint32_t kMinRows = 64;

KvType kv_type(const Deployment &deployment, const ModelConfig &config) {
    switch (deployment.kv_type) {
        case Deployment::KvType::bf16:
            return KvType::bf16;
        case Deployment::KvType::f32:
            return KvType::f32;
        case Deployment::KvType::fp8:
            break;
    }
    if (config.kv_rank % kFp8Group != 0)
        fail(KIMI_UNSUPPORTED, "field kv.type: fp8 needs kv_lora_rank in groups of ", kFp8Group,
             ", it is ", config.kv_rank);
    return KvType::fp8;
}

ModelPlacement place(const Deployment &deployment, const Model &model) {
    ModelDims dims{dims_of(model.config, false), {}};
    if (model.drafter_config) dims.drafter = dims_of(*model.drafter_config);
    const Placement placement = placement_of(deployment, dims);
    if (!placement.balance_experts)
        return {dims, placement, ExpertMap::in_order(dims.target, placement.expert_groups)};
    const ExpertCounts counts = read_expert_counts(deployment.placement.expert_counts, dims.target);
    return {dims, placement,
            ExpertMap::balanced(dims.target, counts, placement.expert_groups,
                                placement.expert_replicas)};
}

void compute_whole_step(Rank &rank, const WholeStepArguments &step) {
    WholeSteps &steps = *rank.device->whole_steps();
    Target &target = *rank.target;
    Drafter *const drafter = rank.drafter.get();
    const bool drafts = !step.requests.empty();
    steps.begin_step(
        {drafts ? drafter->blocks(step.requests) : DraftPlan(), step.rows, step.sequences});
    if (drafts) drafter->propose();
    steps.build_trees(drafter ? drafter->logits() : Buffer(), target.weights().head.rows);
    target.compute();
    steps.accept(target.logits(), target.weights().head.rows);
    if (drafter) drafter->write_context();
    steps.finish_step();
}

}  // namespace

std::uint32_t context_limit_of(const Deployment &deployment, std::uint32_t max_position) {
    if (deployment.context_limit == 0) return max_position;
    if (deployment.context_limit > max_position)
        fail(KIMI_INVALID_ARGUMENT, "field context_limit: is ", deployment.context_limit,
             ", the model's max_position_embeddings is ", max_position);
    return deployment.context_limit;
}

unsigned threads_per_rank(const Deployment &deployment) {
    const unsigned threads = deployment.threads > 0 ? deployment.threads : available_cores();
    return std::max(1U, threads / deployment.ranks);
}

Runner::Runner(const Deployment &deployment, const Progress &progress, const Host &host)
    : model_(std::make_shared<Model>()) {
    Model &m = *model_;
    m.config = read_model_config(deployment.checkpoint + "/config.json");
    const bool on_cpu = deployment.backend == Deployment::Backend::cpu;
    m.checkpoint = Checkpoint::open_target(deployment.checkpoint, on_cpu ? progress : Progress());
    m.weights = load_target_weights(m.checkpoint, m.config,
                                    deployment.qk_latent_norm_eps.value_or(m.config.rms_eps));
    m.limits.context = context_limit_of(deployment, m.config.max_position);
    if (!deployment.drafter.empty()) load_drafter(deployment);
    const ModelPlacement placement = place(deployment, m);
    make_devices(deployment, host);
    m.limits.rows = std::max(deployment.prefill_chunk, kMinRows);
    shard_weights(deployment, placement, on_cpu ? Progress() : progress);
    make_ranks(deployment, placement);
    std::vector<Device *> devices;
    for (const Rank &rank : m.ranks) devices.push_back(rank.device.get());
    memory_ = std::make_unique<RankedKv>(std::move(devices), kv());
    if (n_ranks() == 1) {
        m.ranks[0].device->connect();
    } else {
        make_team(host);
        team_->run([&m](std::uint32_t rank) { m.ranks[rank].device->connect(); });
    }
    warm_up(*this);
}

void Runner::make_team(const Host &host) {
    Model &m = *model_;
    m.arguments = PassArguments(max_rows(), pages_for(context_limit() + kMaxTreeNodes), host.heap);
    logits_.resize(m.config.vocab);
    team_ = std::make_unique<RankTeam>(m.communicator, model_, host.log);
}

void Runner::load_drafter(const Deployment &deployment) {
    Model &m = *model_;
    m.drafter_config = read_drafter_config(deployment.drafter + "/config.json", m.config);
    m.drafter_checkpoint = Checkpoint::open_drafter(deployment.drafter);
    m.drafter_weights = load_drafter_weights(m.drafter_checkpoint, *m.drafter_config);
}

void Runner::make_devices(const Deployment &deployment, const Host &host) {
    Model &m = *model_;
    m.communicator = std::make_shared<Communicator>(deployment.ranks);
    m.ranks.resize(deployment.ranks);
    if (deployment.backend == Deployment::Backend::cuda) {
        auto devices =
            open_cuda_backend(deployment.cuda_library)
                .make_devices(deployment.ranks, m.communicator,
                              [log = host.log](const std::string &line) { log.info(line); });
        for (std::uint32_t i = 0; i < deployment.ranks; ++i)
            m.ranks[i].device = std::move(devices[i]);
        return;
    }
    for (std::uint32_t i = 0; i < deployment.ranks; ++i)
        m.ranks[i].device = make_cpu_device(best_cpu_isa(), threads_per_rank(deployment),
                                            m.communicator, i, host.heap);
}

void Runner::shard_weights(const Deployment &deployment, const ModelPlacement &placement,
                           const Progress &progress) {
    Model &m = *model_;
    std::vector<RankWeights> loads;
    for (std::uint32_t i = 0; i < deployment.ranks; ++i) {
        Rank &rank = m.ranks[i];
        rank.weights = shard_of(m.weights, placement, i);
        if (m.drafter_config) rank.drafter_weights = shard_of(m.drafter_weights, placement, i);
        loads.push_back({rank.device.get(), &rank.weights, &rank.drafter_weights,
                         mla_shape(m.config, rank.weights)});
    }
    load_weights(loads, progress);
}

void Runner::make_ranks(const Deployment &deployment, const ModelPlacement &placement) {
    Model &m = *model_;
    const std::uint64_t capacity =
        deployment.kv_capacity_tokens > 0 ? deployment.kv_capacity_tokens : m.limits.context;
    const std::vector<std::uint32_t> taps =
        m.drafter_config ? m.drafter_config->taps : std::vector<std::uint32_t>();
    for (std::uint32_t index = deployment.ranks; index-- > 0;) {
        Rank &rank = m.ranks[index];
        rank.target = std::make_unique<Target>(*rank.device, m.config, rank.weights, m.limits.rows,
                                               m.limits.rows, taps);
        DeviceLimits limits = rank.target->limits();
        limits.rows = m.limits.rows;
        limits.context = m.limits.context;
        limits.kv.type = kv_type(deployment, m.config);
        limits.kv.n_pages = static_cast<std::uint32_t>(pages_for(capacity));
        limits.kv.n_shards = placement.placement.page_parts();
        limits.kv.shard = index % limits.kv.n_shards;
        if (!deployment.graph_widths.empty() && deployment.backend == Deployment::Backend::cuda)
            limits.graphs = {deployment.graph_widths, deployment.graph_sessions,
                             deployment.graph_bytes()};
        if (m.drafter_config) {
            rank.drafter = std::make_unique<Drafter>(
                *rank.device, *m.drafter_config, rank.drafter_weights, *rank.target, limits.rows,
                deployment.rope_attention_factor.value_or(0.0f));
            limits.draft = rank.drafter->shape(deployment.draft_sessions);
            limits.width = std::max(limits.width, rank.drafter->width());
        }
        rank.device->reserve(limits);
        if (index == 0) m.limits = limits;
    }
}

std::uint64_t Runner::weight_bytes() const {
    std::uint64_t bytes = 0;
    for (const Checkpoint *checkpoint : {&model_->checkpoint, &model_->drafter_checkpoint})
        checkpoint->each([&](const Tensor &tensor) { bytes += tensor.bytes; });
    return bytes;
}

Runner::Digests Runner::digests() const {
    const std::lock_guard lock(digests_mutex_);
    if (!digests_) {
        Digests made{checkpoint_digest(model_->checkpoint), {}};
        if (drafter()) made.drafter = checkpoint_digest(model_->drafter_checkpoint);
        digests_ = made;
    }
    return *digests_;
}

template <typename Arguments>
void Runner::set(const Arguments &arguments) {
    team_->expect_working();
    model_->arguments.set(arguments);
}

void Runner::forward(const StepPlan &plan) {
    if (!team_) return model_->ranks[0].target->forward(plan);
    set(plan);
    team_->run([m = model_.get()](std::uint32_t rank) {
        m->ranks[rank].target->forward(m->arguments.plan());
    });
}

void Runner::draft(std::span<const DraftRequest> requests, std::uint32_t k) {
    if (!team_) return model_->ranks[0].drafter->draft(requests, k);
    set(requests);
    team_->run([m = model_.get(), k](std::uint32_t rank) {
        m->ranks[rank].drafter->draft(m->arguments.requests(), k);
    });
}

void Runner::extend(std::span<const DraftExtension> extensions) {
    if (!team_) return model_->ranks[0].drafter->extend(extensions);
    set(extensions);
    team_->run([m = model_.get()](std::uint32_t rank) {
        m->ranks[rank].drafter->extend(m->arguments.extensions());
    });
}

std::uint32_t Runner::max_step_rows(std::uint32_t n_sequences) const {
    const WholeSteps *steps = device().whole_steps();
    return steps == nullptr ? 0 : std::min(steps->max_step_rows(n_sequences), max_rows());
}

void Runner::whole_step(const WholeStepArguments &step) {
    if (!team_) return compute_whole_step(model_->ranks[0], step);
    set(step);
    team_->run([m = model_.get()](std::uint32_t rank) {
        compute_whole_step(m->ranks[rank], m->arguments.whole_step());
    });
}

std::span<const float> Runner::logits(std::uint32_t i) {
    if (!team_) return model_->ranks[0].target->logits(i);
    auto to = logits_.begin();
    for (const Rank &rank : model_->ranks) {
        const std::span<const float> part = rank.target->logits(i);
        to = std::copy(part.begin(), part.end(), to);
    }
    return logits_;
}

void Runner::begin_step() {
    for (const Rank &rank : model_->ranks) rank.device->recorder().begin();
}

void Runner::end_step(std::uint32_t prompt_rows, std::uint32_t decode_rows) {
    for (const Rank &rank : model_->ranks) rank.device->recorder().end(prompt_rows, decode_rows);
}

std::vector<std::vector<StepRecord>> Runner::recorded_steps() const {
    std::vector<std::vector<StepRecord>> out;
    for (const Rank &rank : model_->ranks) out.push_back(rank.device->recorder().steps());
    return out;
}

}  // namespace kimi
