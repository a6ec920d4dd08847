// Joins the steps that threads ask for at the same time into passes.
//
// A caller that finds nobody leading leads: it runs passes until its sessions have had their step.
// Who comes while a pass runs is joined in the next one, which the first to find no leader leads
// for all. On an idle engine nobody waits. Where a pass served several callers, the next one gives
// them a small part of its time to come back: without that, they would drift apart and take turns.
// A pass of prompts alone gives those that decoded half of it: who comes too late waits for all of
// the next one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace kimi {

class Session;

class StepQueue {
  public:
    // Gives a step to at least one of the sessions and takes those that had one off the list.
    // concurrent: the sessions that decoded last may be there again before the pass ends, because
    // not only their thread is at work. Does not throw.
    using Pass = std::function<void(std::vector<Session *> &waiting, bool concurrent)>;
    explicit StepQueue(Pass pass);

    // One step of each session, which belong to no other call. Returns when all had theirs. Any
    // thread.
    void step(std::span<Session *const> sessions);

  private:
    struct Caller {
        std::span<Session *const> sessions;
        std::size_t n_joined = 0;  // of the sessions: in joined_, or done
        bool done = false;
        std::condition_variable wake;
        std::thread::id thread = std::this_thread::get_id();
    };

    void lead(std::unique_lock<std::mutex> &lock);
    void join_callers();
    void release_callers();
    void await_callers(std::unique_lock<std::mutex> &lock);
    bool anyone_decodes() const;
    bool had_their_step(const Caller &caller) const;

    const Pass pass_;

    std::mutex mutex_;  // guards all below
    bool leading_ = false;
    std::vector<Caller *> callers_;  // not done, in order of arrival
    std::vector<Session *> joined_;  // the leader's alone while a pass runs
    // The last pass: callers whose replies go on, whether any of them decodes, when it ended and
    // how long it took.
    std::size_t n_returning_ = 0;
    bool decoding_ = false;
    std::chrono::steady_clock::time_point end_;
    std::chrono::steady_clock::duration duration_{};
    std::condition_variable arrival_;
    std::thread::id decoding_thread_;  // the last whose sessions decode
};

}  // namespace kimi
