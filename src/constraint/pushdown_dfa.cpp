#include "constraint/pushdown_dfa.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"

namespace kimi {

using Kind = PushdownNfa::Kind;
using Condition = RegisterRule::Condition;

// Builds a PushdownDfa.
class Determinizer {
  public:
    Determinizer(const PushdownNfa &nfa, WorkMeter &meter, PushdownDfa &dfa)
        : nfa_(nfa), meter_(meter), dfa_(dfa) {}

    void run() {
        find_classes();
        intern({});  // state 0
        dfa_.start_ = intern(closed({{nfa_.start, 0}}));
        reach(dfa_.start_, dfa_.start_);
        while (!todo_.empty()) {
            const auto [entry, state] = todo_.back();
            todo_.pop_back();
            if (!explored_[state]) explore(state);
            for (std::size_t i = 0; i < outcomes_of_[state].size(); ++i)
                follow(entry, outcomes_of_[state][i]);
        }
    }

  private:
    // A state of nfa_ and its link.
    struct Thread {
        std::uint32_t state, link;
        auto operator<=>(const Thread &) const = default;
    };
    using Threads = std::vector<Thread>;
    struct ThreadsHash {
        std::size_t operator()(const Threads &threads) const {
            std::uint64_t hash = threads.size();
            for (const Thread &thread : threads)
                hash = (hash ^ (std::uint64_t{thread.link} << 32 | thread.state)) *
                               0x9E3779B97F4A7C15 >>
                           7 |
                       hash << 57;
            return hash;
        }
    };
    struct Active {
        const PushdownNfa::Edge *edge;
        std::uint32_t link;
    };
    // What is known of frames that begin in a state: who begins them, and how they end.
    struct Frames {
        std::set<std::pair<std::uint32_t, std::uint32_t>> callers;  // their entry, return set
        std::set<std::uint32_t> links;
    };

    void find_classes() {
        std::array<bool, 257> begins{};
        begins[0] = true;
        for (const PushdownNfa::State &state : nfa_.states)
            for (const PushdownNfa::Edge &edge : state.edges)
                begins[edge.low] = begins[edge.high + 1u] = true;
        unsigned n = 0;
        for (std::size_t byte = 0; byte < 256; ++byte) {
            if (begins[byte]) ++n;
            dfa_.class_of_[byte] = static_cast<std::uint8_t>(n - 1);
        }
        dfa_.n_classes_ = n;
        std::set<std::uint32_t> limits;
        for (const RegisterRule &rule : nfa_.rules)
            if (rule.condition == Condition::between) limits.insert({rule.a, rule.b + 1});
        limits.erase(0);
        dfa_.limits_.assign(limits.begin(), limits.end());
    }

    // --- Sets and their numbers ---

    // The states that a state also is in, as far as they have edges or accept.
    const std::vector<std::uint32_t> &closure(std::uint32_t state) {
        std::vector<std::uint32_t> &known = closures_[state];
        if (!known.empty()) return known;
        std::vector<std::uint32_t> found{state};
        std::set<std::uint32_t> seen{state};
        for (std::size_t i = 0; i < found.size(); ++i) {
            meter_.step(1 + nfa_.states[found[i]].moves.size());
            for (const std::uint32_t to : nfa_.states[found[i]].moves)
                if (seen.insert(to).second) found.push_back(to);
        }
        std::erase_if(found, [&](std::uint32_t s) {
            return nfa_.states[s].edges.empty() && !nfa_.states[s].accepting;
        });
        if (found.empty()) found.push_back(state);
        return known = std::move(found);
    }
    Threads closed(const Threads &threads) {
        Threads all;
        for (const Thread &thread : threads)
            for (const std::uint32_t state : closure(thread.state))
                all.push_back({state, thread.link});
        return sorted(std::move(all));
    }
    Threads sorted(Threads threads) {
        meter_.step(threads.size());
        std::sort(threads.begin(), threads.end());
        threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
        return threads;
    }

    std::uint32_t intern(Threads threads) {
        const auto [at, is_new] =
            states_.emplace(std::move(threads), static_cast<std::uint32_t>(states_.size()));
        if (is_new) {
            meter_.check_states(states_.size());
            threads_.push_back(&at->first);
            std::uint8_t flags = 0;
            for (const Thread &thread : at->first) {
                if (nfa_.states[thread.state].accepting) flags |= PushdownDfa::kAccepting;
                if (nfa_.states[thread.state].set_register) flags |= PushdownDfa::kSetRegister;
            }
            dfa_.flags_.push_back(flags);
            dfa_.rows_.resize(dfa_.rows_.size() + dfa_.n_classes_);
            explored_.push_back(false);
            outcomes_of_.emplace_back();
        }
        return at->second;
    }
    std::uint32_t intern_return(Threads threads) {
        const auto [at, is_new] =
            returns_.emplace(std::move(threads), static_cast<std::uint32_t>(returns_.size()));
        if (is_new) {
            return_threads_.push_back(&at->first);
            dfa_.returns_.emplace_back();
        }
        return at->second;
    }
    // What links mean: the states of a return set, in their order.
    static std::vector<std::uint32_t> places_of(const Threads &back) {
        std::vector<std::uint32_t> places;
        for (const Thread &thread : back)
            if (places.empty() || places.back() != thread.state) places.push_back(thread.state);
        return places;
    }
    std::uint32_t resume(std::uint32_t back, std::uint32_t links) {
        auto &known = dfa_.returns_[back];
        for (const auto &[l, state] : known)
            if (l == links) return state;
        const std::vector<std::uint32_t> places = places_of(*return_threads_[back]);
        Threads threads;
        for (const Thread &thread : *return_threads_[back])
            for (const std::uint32_t link : *link_sets_[links])
                if (places[link] == thread.state) threads.push_back(thread);
        const std::uint32_t state = intern(closed(threads));
        dfa_.returns_[back].emplace_back(links, state);
        return state;
    }

    // --- Reachability: pairs of the state in which a frame began and a state in that frame ---

    void reach(std::uint32_t entry, std::uint32_t state) {
        meter_.step();
        if (state != 0 && reached_.insert(std::uint64_t{entry} << 32 | state).second)
            todo_.emplace_back(entry, state);
    }
    void follow(std::uint32_t entry, std::uint32_t outcome) {
        const std::uint32_t index = outcome & PushdownDfa::kIndex;
        if (outcome < PushdownDfa::kPush) {
            reach(entry, outcome);
        } else if (outcome < PushdownDfa::kPop) {
            const PushdownDfa::Push push = dfa_.pushes_[index];
            Frames &frames = frames_[push.child];
            reach(push.child, push.child);
            if (frames.callers.insert({entry, push.back}).second)
                for (const std::uint32_t links : frames.links)
                    reach(entry, resume(push.back, links));
        } else {
            Frames &frames = frames_[entry];
            if (frames.links.insert(index).second)
                for (const auto &[caller, back] : frames.callers)
                    reach(caller, resume(back, index));
        }
    }

    // --- Rows ---

    void explore(std::uint32_t state) {
        explored_[state] = true;
        std::vector<Active> edges;
        std::set<std::uint32_t> cuts;  // classes where the set of edges changes
        const auto class_of = [&](unsigned byte) {
            return byte == 256 ? dfa_.n_classes_ : dfa_.class_of_[byte];
        };
        for (const Thread &thread : *threads_[state]) {
            for (const PushdownNfa::Edge &edge : nfa_.states[thread.state].edges) {
                edges.push_back({&edge, thread.link});
                cuts.insert({class_of(edge.low), class_of(edge.high + 1u)});
            }
        }
        std::vector<Active> active;
        for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
            active.clear();
            for (const Active &a : edges)
                if (class_of(a.edge->low) <= *cut && class_of(a.edge->high) >= *cut)
                    active.push_back(a);
            meter_.step(edges.size());
            const std::uint32_t entry = entry_of(active);
            const auto row = dfa_.rows_.begin() + state * std::ptrdiff_t{dfa_.n_classes_};
            std::fill(row + *cut, row + *std::next(cut), entry);
        }
        std::sort(outcomes_.begin(), outcomes_.end());
        outcomes_.erase(std::unique(outcomes_.begin(), outcomes_.end()), outcomes_.end());
        outcomes_of_[state] = std::exchange(outcomes_, {});
    }

    const RegisterRule &rule_of(const Active &active) const {
        return nfa_.rules[active.edge->rule];
    }

    // What edges over the same bytes do.
    std::uint32_t entry_of(const std::vector<Active> &active) {
        std::set<std::uint32_t> cuts{0};
        const RegisterRule *set_rule = nullptr;
        for (const Active &a : active) {
            const RegisterRule &rule = rule_of(a);
            if (rule.condition == Condition::between) cuts.insert({rule.a, rule.b + 1});
            if (rule.condition <= Condition::between) continue;
            KIMI_CHECK(set_rule == nullptr || set_rule == &rule);  // see ordered_child
            set_rule = &rule;
        }
        std::vector<PushdownDfa::Case> cases;
        if (set_rule != nullptr) {
            cases.push_back({*set_rule, plain_entry(active), false});
            add_case(cases, active, [&](const RegisterRule &rule) { return &rule != set_rule; });
        } else {
            for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
                add_case(cases, active,
                         [&](const RegisterRule &rule) { return rule.allows(*cut); });
                if (cases.empty() || cuts.size() == 1) continue;
                RegisterRule &rule = cases.back().rule;
                if (rule.condition != Condition::none) continue;  // nothing was added
                rule.condition = Condition::between;
                rule.a = *cut;
                rule.b = std::next(cut) == cuts.end() ? UINT32_MAX : *std::next(cut) - 1;
            }
        }
        if (cases.empty()) return 0;
        if (cases.size() == 1 && cases[0].rule == RegisterRule{}) return cases[0].entry;
        cases.back().last = true;
        const auto index = static_cast<std::uint32_t>(dfa_.cases_.size());
        dfa_.cases_.insert(dfa_.cases_.end(), cases.begin(), cases.end());
        return PushdownDfa::kCases | index;
    }
    // Adds the case of the edges that are left, if some are, as yet without a condition.
    template <typename Allowed>
    void add_case(std::vector<PushdownDfa::Case> &cases, const std::vector<Active> &active,
                  Allowed allowed) {
        std::vector<Active> some;
        RegisterRule rule;
        for (const Active &a : active) {
            if (!allowed(rule_of(a))) continue;
            some.push_back(a);
            rule.add = std::max(rule.add, rule_of(a).add);
        }
        if (!some.empty()) cases.push_back({rule, plain_entry(some), false});
    }

    // What edges do, their rules apart.
    std::uint32_t plain_entry(const std::vector<Active> &active) {
        meter_.step(active.size());
        const Kind kind = active[0].edge->kind;
        for (const Active &a : active) KIMI_CHECK(a.edge->kind == kind);
        const std::uint32_t entry = kind == Kind::step   ? step_entry(active)
                                    : kind == Kind::push ? push_entry(active)
                                                         : pop_entry(active);
        outcomes_.push_back(entry);
        return entry;
    }
    std::uint32_t step_entry(const std::vector<Active> &active) {
        Threads threads;
        for (const Active &a : active) threads.push_back({a.edge->to, a.link});
        return intern(closed(threads));
    }
    std::uint32_t push_entry(const std::vector<Active> &active) {
        std::set<std::uint32_t> objects;
        Threads back;
        std::uint32_t depth = UINT32_MAX;
        for (const Active &a : active) {
            if (a.edge->child != a.edge->ordered_child) objects.insert(a.edge->child);
            back.push_back({a.edge->to, a.link});
            depth = std::min<std::uint32_t>(depth, a.edge->depth);
        }
        back = sorted(std::move(back));
        const std::vector<std::uint32_t> places = places_of(back);
        Threads threads;
        for (const Active &a : active) {
            const auto at = std::lower_bound(places.begin(), places.end(), a.edge->to);
            threads.push_back({objects.size() > 1 ? a.edge->ordered_child : a.edge->child,
                               static_cast<std::uint32_t>(at - places.begin())});
        }
        const std::uint32_t child = intern(closed(threads));
        const PushdownDfa::Push push{child, intern_return(std::move(back)), depth};
        const auto [at, is_new] =
            pushes_.emplace(push, static_cast<std::uint32_t>(dfa_.pushes_.size()));
        if (is_new) dfa_.pushes_.push_back(push);
        return PushdownDfa::kPush | at->second;
    }
    std::uint32_t pop_entry(const std::vector<Active> &active) {
        std::set<std::uint32_t> links;
        for (const Active &a : active) links.insert(a.link);
        const auto [at, is_new] =
            links_.emplace(std::move(links), static_cast<std::uint32_t>(links_.size()));
        if (is_new) link_sets_.push_back(&at->first);
        return PushdownDfa::kPop | at->second;
    }

    const PushdownNfa &nfa_;
    WorkMeter &meter_;
    PushdownDfa &dfa_;
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> closures_;
    // Sets, by their numbers, with pointers to the maps' keys.
    std::unordered_map<Threads, std::uint32_t, ThreadsHash> states_, returns_;
    std::vector<const Threads *> threads_, return_threads_;
    std::map<std::set<std::uint32_t>, std::uint32_t> links_;
    std::vector<const std::set<std::uint32_t> *> link_sets_;
    std::map<PushdownDfa::Push, std::uint32_t> pushes_;
    // By state.
    std::vector<bool> explored_;
    std::vector<std::vector<std::uint32_t>> outcomes_of_;  // entries without cases
    std::unordered_map<std::uint32_t, Frames> frames_;
    std::unordered_set<std::uint64_t> reached_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> todo_;
    std::vector<std::uint32_t> outcomes_;  // of the state being explored
};

PushdownDfa::PushdownDfa(const PushdownNfa &nfa, WorkMeter &meter) {
    Determinizer(nfa, meter, *this).run();
}

PushdownDfa::Move PushdownDfa::other_move(std::uint32_t entry, std::uint32_t counter) const {
    if (entry >= kCases) {
        const Case *at = &cases_[entry & kIndex];
        while (!at->rule.allows(counter)) {
            if (at->last) return {Move::Kind::none, 0, 0, 0, counter};
            ++at;
        }
        counter = (counter + at->rule.add) | at->rule.set;
        entry = at->entry;
        if (entry < kPush)
            return {entry == 0 ? Move::Kind::none : Move::Kind::step, entry, 0, 0, counter};
    }
    if (entry >= kPop) return {Move::Kind::pop, entry & kIndex, 0, 0, counter};
    const Push &push = pushes_[entry & kIndex];
    return {Move::Kind::push, push.child, push.back, push.depth, counter};
}

std::uint32_t PushdownDfa::resume(std::uint32_t back, std::uint32_t links) const {
    for (const auto &[l, state] : returns_[back])
        if (l == links) return state;
    return 0;
}

std::uint32_t PushdownDfa::equivalent(std::uint32_t state, std::uint32_t counter,
                                      std::uint32_t n) const {
    if ((flags_[state] & kSetRegister) != 0) return counter;
    const auto next = std::upper_bound(limits_.begin(), limits_.end(), counter);
    if (next == limits_.end()) return limits_.empty() ? 0 : limits_.back();
    return *next - counter > n ? *next - n - 1 : counter;
}

}  // namespace kimi
