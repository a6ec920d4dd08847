// Joins the steps that threads ask for at the same time into passes.
//
// A caller that finds nobody leading leads: it runs passes until its sessions have had their step.
// Who comes while a pass runs is joined in the next one, which the first to find no leader leads
// for all. On an idle engine nobody waits. Where a pass served several callers, the next one gives
// them a small part of its time to come back: without that, they would drift apart and take turns.
// A pass of prompts alone gives those that decoded half of it: who comes too late waits for all of
// the next one.
//
// Steps in the background are callers that do not wait: a thread of the queue leads for them where
// nobody else does.
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
    // not only their caller is at work. Does not throw.
    using Pass = std::function<void(std::vector<Session *> &waiting, bool concurrent)>;
    explicit StepQueue(Pass pass);
    // There are no callers any more.
    ~StepQueue();

    // One step of each session, which belong to no other call. Returns when all had theirs. Any
    // thread.
    void step(std::span<Session *const> sessions);

  private:
    friend class BackgroundStep;

    // Who asks: a thread that waits, or a session in the background.
    struct Origin {
        std::thread::id thread;
        const Session *session = nullptr;
        bool operator==(const Origin &) const = default;
    };
    struct Caller {
        std::span<Session *const> sessions;
        Origin origin;
        std::size_t n_joined = 0;  // of the sessions: in joined_, or done
        bool done = false;
        int event = -1;  // is told when it is done
        std::condition_variable wake;

        bool in_background() const { return origin.session != nullptr; }
    };

    void work();
    void lead(std::unique_lock<std::mutex> &lock);
    void hand_on();
    void join_callers();
    void release_callers();
    void await_callers(std::unique_lock<std::mutex> &lock);
    bool anyone_decodes() const;
    bool had_their_step(const Caller &caller) const;

    const Pass pass_;

    std::mutex mutex_;  // guards all below, and the callers
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
    Origin decoding_origin_;  // the last whose sessions decode

    bool stop_ = false;
    std::condition_variable background_;  // there is something to do for worker_
    std::thread worker_;                  // from the first background step on
};

}  // namespace kimi
