#include "constraint/fragment.h"

#include <algorithm>
#include <unordered_map>

namespace kimi {
namespace {

// Keeps the states that can reach acceptance. All are reachable.
Fragment trimmed(std::vector<Fragment::State> states) {
    const std::size_t n = states.size();
    std::vector<std::vector<std::uint32_t>> sources(n);
    std::vector<std::uint32_t> alive;
    std::vector<bool> seen(n);
    const auto mark = [&](std::uint32_t state) {
        if (!seen[state]) alive.push_back(state);
        seen[state] = true;
    };
    for (std::uint32_t i = 0; i < n; ++i) {
        for (const Fragment::Edge &edge : states[i].edges) sources[edge.to].push_back(i);
        if (states[i].accepting) mark(i);
    }
    for (std::size_t i = 0; i < alive.size(); ++i)
        for (const std::uint32_t source : sources[alive[i]]) mark(source);
    if (n == 0 || !seen[0]) return {};
    std::vector<std::uint32_t> number(n);
    Fragment out;
    for (std::uint32_t i = 0; i < n; ++i) {
        if (!seen[i]) continue;
        number[i] = static_cast<std::uint32_t>(out.states.size());
        out.states.push_back(std::move(states[i]));
    }
    for (Fragment::State &state : out.states) {
        std::erase_if(state.edges, [&](const Fragment::Edge &edge) { return !seen[edge.to]; });
        for (Fragment::Edge &edge : state.edges) edge.to = number[edge.to];
    }
    return out;
}

}  // namespace

Fragment intersection(const Fragment &a, const Fragment &b, WorkMeter &meter) {
    if (a.empty() || b.empty()) return {};
    using Pair = std::pair<std::uint32_t, std::uint32_t>;
    std::vector<Pair> pairs;
    std::unordered_map<std::uint64_t, std::uint32_t> numbers;
    const auto number = [&](Pair pair) {
        const std::uint64_t key = std::uint64_t{pair.first} << 32 | pair.second;
        const auto [at, is_new] = numbers.emplace(key, static_cast<std::uint32_t>(pairs.size()));
        if (is_new) pairs.push_back(pair);
        return at->second;
    };
    std::vector<Fragment::State> states;
    number({0, 0});
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        meter.check_states(pairs.size());
        const Fragment::State &x = a.states[pairs[i].first], &y = b.states[pairs[i].second];
        meter.step(1 + x.edges.size() * y.edges.size());
        Fragment::State &state = states.emplace_back();
        state.accepting = x.accepting && y.accepting;
        for (const Fragment::Edge &e : x.edges) {
            for (const Fragment::Edge &f : y.edges) {
                const std::uint8_t low = std::max(e.low, f.low), high = std::min(e.high, f.high);
                if (low <= high) state.edges.push_back({low, high, number({e.to, f.to})});
            }
        }
    }
    return trimmed(std::move(states));
}

std::uint32_t FragmentBuilder::add_state() {
    meter_->check_states(states_.size() + 1);
    moves_.emplace_back();
    states_.emplace_back();
    return static_cast<std::uint32_t>(states_.size() - 1);
}

Fragment FragmentBuilder::finish(std::uint32_t accepting) const {
    std::vector<Fragment::State> states;
    std::vector<std::uint32_t> pending{0}, number(states_.size(), UINT32_MAX), closure;
    std::vector<std::size_t> seen(states_.size(), SIZE_MAX);  // in the closure of which state
    number[0] = 0;
    for (std::size_t i = 0; i < pending.size(); ++i) {
        Fragment::State &state = states.emplace_back();
        closure = {pending[i]};
        seen[pending[i]] = i;
        for (std::size_t k = 0; k < closure.size(); ++k) {
            const std::uint32_t from = closure[k];
            meter_->step(1 + moves_[from].size() + states_[from].edges.size());
            state.accepting |= from == accepting;
            for (const std::uint32_t to : moves_[from]) {
                if (seen[to] != i) closure.push_back(to);
                seen[to] = i;
            }
            for (Fragment::Edge edge : states_[from].edges) {
                if (number[edge.to] == UINT32_MAX) {
                    number[edge.to] = static_cast<std::uint32_t>(pending.size());
                    pending.push_back(edge.to);
                }
                edge.to = number[edge.to];
                state.edges.push_back(edge);
            }
        }
    }
    return trimmed(std::move(states));
}

}  // namespace kimi
