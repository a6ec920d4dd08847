#include "deploy/deployment.h"

#include "deploy/flatbuffers_config.h"

#include "deployment_bfbs_generated.h"
#include "deployment_generated.h"

#include "base/json.h"
#include "base/mapped_file.h"
#include "deploy/json_to_flatbuffer.h"

namespace kimi {
namespace {

constexpr std::size_t kMaxFile = 1U << 20;
constexpr std::uint32_t kMaxThreads = 1024, kMaxChunk = 8192, kMaxContext = 1U << 24;
constexpr std::uint32_t kMaxRanks = 64, kMaxReplicas = 4096;
constexpr std::uint32_t kMaxWidth = 64;  // rows of a pass that decodes
constexpr std::uint32_t kMaxGraphMib = 1U << 20;

// A path of the file, seen from where the file is.
std::string resolve(const std::string &file, const std::string &path) {
    const std::size_t slash = file.rfind('/');
    if (path.starts_with('/') || slash == std::string::npos) return path;
    return file.substr(0, slash + 1) + path;
}

std::string bytes_of(const std::string &path, const std::string &text) {
    if (text.size() >= 8 && fbs::DeploymentBufferHasIdentifier(text.data())) return text;
    const auto binary =
        json_to_flatbuffer(parse_json(text, path), fbs::DeploymentBinarySchema::data(), path);
    return {binary.begin(), binary.end()};
}

Deployment::Placement convert(const fbs::PlacementT &in, const std::string &path) {
    Deployment::Placement out;
    out.attention = static_cast<Deployment::Attention>(in.attention);
    out.experts = static_cast<Deployment::Experts>(in.experts);
    out.expert_groups = in.expert_groups;
    out.split_q_a = in.q_a == fbs::Replication::split;
    out.split_kv_a = in.kv_a == fbs::Replication::split;
    out.split_router = in.router == fbs::Replication::split;
    out.expert_replicas = in.expert_replicas;
    out.expert_counts = in.expert_counts.empty() ? "" : resolve(path, in.expert_counts);
    return out;
}

Deployment convert(const fbs::DeploymentT &in, const std::string &path) {
    Deployment out;
    out.checkpoint = in.checkpoint.empty() ? "" : resolve(path, in.checkpoint);
    out.drafter = in.drafter.empty() ? "" : resolve(path, in.drafter);
    out.backend = static_cast<Deployment::Backend>(in.backend);
    out.threads = in.threads;
    out.context_limit = in.context_limit;
    out.prefill_chunk = in.prefill_chunk;
    if (in.kv) {
        out.kv_type = static_cast<Deployment::KvType>(in.kv->type);
        out.kv_capacity_tokens = in.kv->capacity_tokens;
    }
    if (in.speculation) {
        out.max_nodes = in.speculation->max_nodes;
        out.draft_sessions = in.speculation->sessions;
    }
    if (in.numeric) {
        if (in.numeric->qk_latent_norm_eps)
            out.qk_latent_norm_eps = *in.numeric->qk_latent_norm_eps;
        if (in.numeric->rope_attention_factor)
            out.rope_attention_factor = *in.numeric->rope_attention_factor;
    }
    out.ranks = in.ranks;
    if (in.placement) out.placement = convert(*in.placement, path);
    if (in.link_gb_per_s) out.link_gb_per_s = *in.link_gb_per_s;
    if (in.graphs) {
        if (!in.graphs->widths.empty()) out.graph_widths = in.graphs->widths;
        if (!in.graphs->sessions.empty()) out.graph_sessions = in.graphs->sessions;
        if (in.graphs->eager) out.graph_widths.clear();
        out.graph_memory_mib = in.graphs->memory_mib;
    }
    out.cuda_library = in.cuda_library.empty() ? "" : resolve(path, in.cuda_library);
    return out;
}

// The meaning of every field, in one place.
class Check {
  public:
    Check(const fbs::DeploymentT &deployment, const std::string &path)
        : d_(deployment), path_(path) {}

    void run() const {
        if (d_.checkpoint.empty()) bad("checkpoint", "is empty");
        in_enum("backend", d_.backend, fbs::Backend::MAX);
        in_range("threads", d_.threads, 0, kMaxThreads);
        in_range("context_limit", d_.context_limit, 0, kMaxContext);
        in_range("prefill_chunk", d_.prefill_chunk, 1, kMaxChunk);
        if (d_.kv) {
            in_enum("kv.type", d_.kv->type, fbs::KvType::MAX);
            in_range("kv.capacity_tokens", d_.kv->capacity_tokens, 0, std::uint64_t{1} << 34);
            in_range("kv.page_tokens", d_.kv->page_tokens, 64, 64);
        }
        if (d_.speculation) {
            in_range("speculation.max_nodes", d_.speculation->max_nodes, 0, 63);
            in_range("speculation.sessions", d_.speculation->sessions, 0, 4096);
        }
        if (d_.numeric) {
            in_range("numeric.qk_latent_norm_eps", d_.numeric->qk_latent_norm_eps, 0, 1);
            in_range("numeric.rope_attention_factor", d_.numeric->rope_attention_factor, 0, 100);
        }
        in_range("ranks", d_.ranks, 1, kMaxRanks);
        if (d_.placement) placement(*d_.placement);
        in_range("link_gb_per_s", d_.link_gb_per_s, 1e-3f, 1e4f);
        if (d_.graphs) graphs(*d_.graphs);
    }

  private:
    void graphs(const fbs::GraphsT &g) const {
        ascending("graphs.widths", g.widths);
        ascending("graphs.sessions", g.sessions);
        in_range("graphs.memory_mib", g.memory_mib, 1, kMaxGraphMib);
        const std::uint32_t needed = d_.speculation ? d_.speculation->max_nodes + 1 : kMaxWidth;
        if (!g.widths.empty() && g.widths.back() < needed)
            bad("graphs.widths", "ends at ", g.widths.back(), ", must reach ", needed,
                ": speculation.max_nodes and the root");
    }
    void ascending(const char *field, const std::vector<std::uint32_t> &sizes) const {
        std::uint32_t last = 0;
        for (const std::uint32_t size : sizes) {
            in_range(field, size, last + 1, kMaxWidth);
            last = size;
        }
    }
    void placement(const fbs::PlacementT &p) const {
        in_enum("placement.attention", p.attention, fbs::AttentionPlacement::MAX);
        in_enum("placement.experts", p.experts, fbs::ExpertPlacement::MAX);
        in_enum("placement.q_a", p.q_a, fbs::Replication::MAX);
        in_enum("placement.kv_a", p.kv_a, fbs::Replication::MAX);
        in_enum("placement.router", p.router, fbs::Replication::MAX);
        if (p.experts == fbs::ExpertPlacement::groups) {
            in_range("placement.expert_groups", p.expert_groups, 1, d_.ranks);
            if (d_.ranks % p.expert_groups != 0)
                bad("placement.expert_groups", "is ", p.expert_groups, ", must divide ranks, ",
                    d_.ranks);
        } else if (p.expert_groups != 0) {
            bad("placement.expert_groups", "is ", p.expert_groups,
                ", must be 0 unless placement.experts is \"groups\"");
        }
        in_range("placement.expert_replicas", p.expert_replicas, 0, kMaxReplicas);
        if (p.expert_replicas == 0) return;
        if (p.expert_counts.empty())
            bad("placement.expert_replicas", "is ", p.expert_replicas,
                ", needs placement.expert_counts");
        if (p.experts == fbs::ExpertPlacement::tensor)
            bad("placement.expert_replicas", "is ", p.expert_replicas,
                ", must be 0 where every rank holds a slice of every expert");
    }

    template <typename... Parts>
    [[noreturn]] void bad(std::string_view field, const Parts &...parts) const {
        fail(KIMI_INVALID_ARGUMENT, path_, ": field ", field, ": ", parts...);
    }
    void in_range(std::string_view field, std::uint64_t value, std::uint64_t min,
                  std::uint64_t max) const {
        if (value < min || value > max)
            bad(field, "is ", value, ", must be from ", min, " to ", max);
    }
    void in_range(std::string_view field, flatbuffers::Optional<float> value, float min,
                  float max) const {
        if (value && !(*value >= min && *value <= max))
            bad(field, "is ", *value, ", must be from ", min, " to ", max);
    }
    template <typename Enum>
    void in_enum(std::string_view field, Enum value, Enum max) const {
        if (value > max) bad(field, "has the unknown value ", static_cast<unsigned>(value));
    }

    const fbs::DeploymentT &d_;
    const std::string &path_;
};

}  // namespace

Deployment read_deployment(const std::string &path) {
    if (is_directory(path)) {
        Deployment defaults;
        defaults.checkpoint = path;
        return defaults;
    }
    const std::string bytes = bytes_of(path, read_file(path, kMaxFile));
    const auto *data = reinterpret_cast<const std::uint8_t *>(bytes.data());
    flatbuffers::Verifier verifier(data, bytes.size());
    if (!fbs::VerifyDeploymentBuffer(verifier))
        fail(KIMI_CORRUPT, path, ": not a valid binary deployment");
    fbs::DeploymentT deployment;
    fbs::GetDeployment(data)->UnPackTo(&deployment);
    Check(deployment, path).run();
    return convert(deployment, path);
}

}  // namespace kimi
