// The threads of the ranks: each runs the same job on its own rank.
//
// A rank that fails ends the job on all ranks, and no other job is run after that. A rank that is
// stuck is not waited for: it keeps what it works on for as long as it lives.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backend/communicator.h"
#include "base/log.h"

namespace kimi {

class RankTeam {
  public:
    // How long to wait.
    struct Patience {
        std::chrono::duration<double> stall{120};  // while no rank gets on
        std::chrono::duration<double> end{5};      // for threads that were told to end
    };

    // Jobs work on `model` and meet in `ranks`; a rank that is left behind is logged.
    RankTeam(std::shared_ptr<Communicator> ranks, std::shared_ptr<const void> model,
             const Log &log = {});
    ~RankTeam() { stop(); }

    // Before a job; tests are less patient.
    void set_patience(const Patience &patience) { patience_ = patience; }

    // Throws KIMI_DEVICE_LOST where a rank failed earlier.
    void expect_working() const;
    // Runs job(rank) on all ranks and waits. Throws what the first rank threw that failed, or
    // KIMI_DEVICE_LOST where the ranks do not get on. The job refers to nothing but the model.
    void run(std::function<void(std::uint32_t rank)> job);
    // Ends the threads and returns how many are stuck and left behind. There are no jobs after it.
    std::uint32_t stop();

  private:
    struct State;

    static void work(std::shared_ptr<State> state, std::uint32_t rank) noexcept;

    std::shared_ptr<State> state_;
    std::vector<std::thread> threads_;
    Patience patience_;
    Log log_;
};

}  // namespace kimi
