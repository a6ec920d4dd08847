// Runs the operations of all devices on one thread, each once it is wanted and all before it are
// done. Nothing runs before somebody waits for it, or for something that seems to wait for it: so
// what misses a wait sees that nothing has happened.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/cudart/control.h"
#include "tests/cudart/op.h"
#include "tests/simt/scheduler.h"

namespace kimi::cudart {

struct Ranks;

using Lock = std::unique_lock<std::mutex>;

class Engine {
  public:
    // Called with the mutex held.
    struct Hooks {
        std::function<cudaError_t(int device)> error_of;  // that has broken the device
        std::function<void(int device, cudaError_t, std::string)> broken;
        std::function<std::vector<OpPtr>()> last_ops;  // of all streams
        std::function<cudaError_t()> kernel_begins;    // an error instead of running it
        std::function<bool(const std::string &kernel)> skips;
        std::function<double()> patience_s;
    };
    Engine(const Machine &machine, Hooks hooks) : machine_(machine), hooks_(std::move(hooks)) {}
    Engine(const Engine &) = delete;
    ~Engine() { stop(); }

    // All with the mutex held.
    std::size_t new_lane() {
        places_.push_back(0);
        return places_.size() - 1;
    }
    // After what the host has waited for, and `before`.
    OpPtr add(int device, TaskPtr task, std::size_t lane, const std::vector<OpPtr> &before);
    // Makes it run, as far as it can.
    void want(const OpPtr &op);
    // Returns when it is done.
    void wait(Lock &lock, const OpPtr &op);
    // A look at whether it is done: a short wait for who looks again, as there may be one core.
    bool look(Lock &lock, const OpPtr &op);
    // The host knows that it is done.
    void seen(const Op &op) { host_knows_.join(op.knows); }
    // Ends the calls of a rank that wait for the others, and those to come.
    void abort(Ranks &ranks, std::size_t rank);
    // Does something while no operation runs.
    template <typename F>
    void between_rounds(Lock &lock, F &&f) {
        ++n_visitors_;
        visits_.wait(lock, [this] { return !running_; });
        f();
        --n_visitors_;
        visits_.notify_all();
    }
    void stop();
    // In a host function.
    bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
    std::uint64_t n_kernels() const { return n_kernels_; }

    std::mutex mutex;

  private:
    struct Active {
        OpPtr op;
        std::unique_ptr<Running> user;
        std::unique_ptr<simt::host::LaunchRun> run;
    };

    void work(const std::stop_token &stop);
    template <typename F>
    void run_unlocked(Lock &lock, F &&f);
    void begin_ready(Lock &lock);
    void begin(Lock &lock, const OpPtr &op);
    void begin_kernel(const OpPtr &op, std::unique_ptr<Running> user);
    void run_task(Lock &lock, const OpPtr &op, Running &user);
    void arrive(Lock &lock, const OpPtr &op, std::unique_ptr<Running> user);
    void meet(Lock &lock, Ranks &ranks);
    void break_up();
    void run_round(Lock &lock);
    void end_launches();
    void stall(Lock &lock);
    void get_on();
    void broken(const Op &op, cudaError_t error, const std::string &why);
    void finish(const OpPtr &op);

    const Machine machine_;
    const Hooks hooks_;
    std::vector<std::uint64_t> places_;  // of lanes
    Clock host_knows_;
    Begun begun_;
    std::deque<OpPtr> ready_;                   // wanted, nothing before them
    std::set<std::shared_ptr<Ranks>> meeting_;  // of which some have arrived
    std::size_t n_wanted_ = 0;                  // and not done
    std::uint64_t n_added_ = 0, n_kernels_ = 0;

    std::condition_variable work_comes_, op_done_, visits_;
    std::size_t n_visitors_ = 0;
    bool running_ = false;  // an operation, without the mutex
    simt::host::Clock time_;
    std::vector<Active> active_;
    bool time_passes_ = false;
    std::chrono::steady_clock::time_point stalled_since_{};
    std::unique_ptr<simt::host::Scheduler> scheduler_ =
        std::make_unique<simt::host::Scheduler>(time_);
    std::jthread thread_;  // from the first wait on
};

}  // namespace kimi::cudart
