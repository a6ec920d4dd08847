#include "model/load_weights.h"

#include <algorithm>
#include <functional>

namespace kimi {
namespace {

// One call of the device.
struct Load {
    const std::byte *from;  // in a file
    std::uint64_t bytes;
    std::function<void()> run;
};

class Loads {
  public:
    void add(const RankWeights &rank) {
        rank_ = &rank;
        TargetWeights &t = *rank.target;
        add(t.embedding, t.head, t.norm);
        for (TargetLayer &l : t.layers) {
            add(l.input_norm, l.post_attention_norm, l.q_a_norm, l.q_a, l.q_b, l.kv_a, l.o, l.mla,
                l.dense);
            if (l.moe) add(l.moe->router, l.moe->shared, *l.moe);
        }
        if (rank.drafter == nullptr) return;
        DrafterWeights &d = *rank.drafter;
        if (!d.layers.empty()) add(d.fc, d.hidden_norm, d.norm);
        for (DrafterLayer &l : d.layers)
            add(l.input_norm, l.post_attention_norm, l.q, l.k, l.v, l.o, l.norms.q, l.norms.k,
                l.mlp);
    }

    void run(const Progress &progress) {
        std::stable_sort(list_.begin(), list_.end(), [](const Load &a, const Load &b) {
            return std::less<const std::byte *>()(a.from, b.from);
        });
        std::uint64_t done = 0, total = 0;
        for (const Load &load : list_) total += load.bytes;
        for (const Load &load : list_) {
            if (progress) progress(done, total);
            load.run();
            done += load.bytes;
        }
        if (progress) progress(done, total);
    }

  private:
    template <typename... Weights>
    void add(Weights &...weights) requires(sizeof...(Weights) > 1) {
        (add(weights), ...);
    }
    void add(Matrix &w) {
        push(w.data, w.bytes(), [&w](Device &device) { device.load(w); });
    }
    void add(Vector &w) {
        push(w.data, w.n * 2, [&w](Device &device) { device.load(w); });
    }
    void add(MlpWeights &w) { add(w.gate, w.up, w.down); }
    void add(MlaWeights &w) {
        push(w.kv_b.data, w.kv_b.bytes(),
             [&w, shape = rank_->mla](Device &device) { device.load(w, shape); });
    }
    // The experts of a layer, in order of the first.
    void add(MoeWeights &w) {
        const auto n = static_cast<std::uint32_t>(w.experts.size());
        const std::byte *first = nullptr;
        std::uint64_t bytes = 0;
        for (const Expert &e : w.experts) {
            if (e.n_copies == 0) continue;
            if (first == nullptr || std::less<const std::byte *>()(e.gate.data, first))
                first = e.gate.data;
            bytes += e.gate.bytes() + e.up.bytes() + e.down.bytes();
        }
        push(first, bytes, [&w, n](Device &device) {
            device.load(w.bias, n);
            device.load(std::span(w.experts));
        });
    }
    template <typename Run>
    void push(const std::byte *from, std::uint64_t bytes, Run run) {
        list_.push_back({from, bytes, [device = rank_->device, run] { run(*device); }});
    }

    const RankWeights *rank_ = nullptr;
    std::vector<Load> list_;
};

}  // namespace

void load_weights(const std::vector<RankWeights> &ranks, const Progress &progress) {
    Loads loads;
    for (const RankWeights &rank : ranks) loads.add(rank);
    loads.run(progress);
}

}  // namespace kimi
