#include "engine/rank_team.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/blocked_signals.h"
#include "base/error.h"

namespace kimi {

// What the team shares with its threads.
struct RankTeam::State {
    enum class Rank : std::uint8_t { idle, busy, ended };

    std::shared_ptr<Communicator> meeting;
    std::shared_ptr<const void> model;
    std::vector<Rank> ranks;

    std::mutex mutex;  // guards all below, and ranks
    std::condition_variable work, done;
    std::function<void(std::uint32_t)> job;
    std::uint64_t n_jobs = 0;
    bool stop = false;
    // Of the rank that failed first; none: the ranks did not get on.
    std::optional<Error> error;
    std::optional<std::uint32_t> failed;

    std::size_t count(Rank state) const {
        return static_cast<std::size_t>(std::count(ranks.begin(), ranks.end(), state));
    }
};

RankTeam::RankTeam(std::shared_ptr<Communicator> ranks, std::shared_ptr<const void> model,
                   const Log &log)
    : state_(std::make_shared<State>()), log_(log) {
    const std::uint32_t n = ranks->n_ranks();
    state_->meeting = std::move(ranks);
    state_->model = std::move(model);
    state_->ranks.resize(n);
    threads_.reserve(n);
    const BlockedSignals blocked;
    try {
        for (std::uint32_t rank = 0; rank < n; ++rank) threads_.emplace_back(work, state_, rank);
    } catch (...) {
        state_->ranks.resize(threads_.size());
        stop();
        throw;
    }
}

void RankTeam::work(std::shared_ptr<State> state, std::uint32_t rank) noexcept {
    State &s = *state;
    std::unique_lock lock(s.mutex);
    for (std::uint64_t seen = 0;;) {
        s.work.wait(lock, [&] { return s.stop || s.n_jobs != seen; });
        if (s.stop) break;
        seen = s.n_jobs;
        lock.unlock();
        try {
            s.job(rank);
            lock.lock();
        } catch (...) {
            Error error = current_error();
            lock.lock();
            if (!s.error) s.error = std::move(error), s.failed = rank;
            s.meeting->abort();
        }
        s.ranks[rank] = State::Rank::idle;
        s.done.notify_all();
    }
    s.ranks[rank] = State::Rank::ended;
    s.done.notify_all();
}

void RankTeam::expect_working() const {
    const std::lock_guard lock(state_->mutex);
    if (state_->error)
        fail(KIMI_DEVICE_LOST,
             "a rank failed earlier and the engine does no further work: ", state_->error->text);
}

void RankTeam::run(std::function<void(std::uint32_t rank)> job) {
    expect_working();
    State &s = *state_;
    std::unique_lock lock(s.mutex);
    s.job = std::move(job);
    ++s.n_jobs;
    std::fill(s.ranks.begin(), s.ranks.end(), State::Rank::busy);
    s.work.notify_all();

    const auto all_done = [&] { return s.count(State::Rank::busy) == 0; };
    std::uint32_t n_meetings = s.meeting->n_meetings();
    for (bool stalled = false; !stalled;) {
        if (s.done.wait_for(lock, patience_.stall, all_done)) break;
        stalled = s.meeting->n_meetings() == n_meetings;
        n_meetings = s.meeting->n_meetings();
        if (!stalled) continue;
        if (!s.error)
            s.error = Error{KIMI_DEVICE_LOST, cat("the ranks did not get on for ",
                                                  patience_.stall.count(), " seconds")};
        s.meeting->abort();
        s.done.wait_for(lock, patience_.end, all_done);
    }
    if (!s.error) return;
    if (s.failed) fail(s.error->status, "rank ", *s.failed, ": ", s.error->text);
    const auto stuck = std::find(s.ranks.begin(), s.ranks.end(), State::Rank::busy);
    if (stuck == s.ranks.end()) throw *s.error;
    fail(s.error->status, "rank ", stuck - s.ranks.begin(), " is stuck: ", s.error->text);
}

std::uint32_t RankTeam::stop() {
    State &s = *state_;
    std::unique_lock lock(s.mutex);
    s.stop = true;
    s.work.notify_all();
    s.meeting->abort();
    s.done.wait_for(lock, patience_.end,
                    [&] { return s.count(State::Rank::ended) == s.ranks.size(); });
    std::uint32_t n_stuck = 0;
    for (std::uint32_t rank = 0; rank < threads_.size(); ++rank) {
        const bool ended = s.ranks[rank] == State::Rank::ended;
        lock.unlock();  // the thread's last deed is to give it up
        ended ? threads_[rank].join() : threads_[rank].detach();
        if (!ended) log_.warning("rank ", rank, " is stuck: it is left behind with its memory");
        lock.lock();
        n_stuck += !ended;
    }
    threads_.clear();
    return n_stuck;
}

}  // namespace kimi
