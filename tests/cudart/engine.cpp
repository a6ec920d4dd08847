#include "tests/cudart/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tests/cudart/collective.h"

namespace kimi::cudart {
namespace {

using simt::host::LaunchRun;

simt::host::Options options_of(const Machine &machine) {
    simt::host::Options options;
    options.races = machine.check_races;
    options.counters = false;
    options.alone = false;
    options.resident_blocks = static_cast<unsigned>(machine.n_sms);
    return options;
}

double duration_us(const Machine &machine, Task::Kind kind) {
    if (kind == Task::Kind::kMarker) return 0;
    return kind == Task::Kind::kCollective ? machine.collective_us : machine.operation_us;
}

std::string text_of_current() {
    return current_error().text;
}

}  // namespace

void Engine::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex);
        thread_.request_stop();
        work_comes_.notify_all();
    }
    thread_.join();
}

// ---- called by host threads

OpPtr Engine::add(int device, TaskPtr task, std::size_t lane, const std::vector<OpPtr> &before) {
    auto op = std::make_shared<Op>();
    op->device = device;
    op->task = std::move(task);
    op->lane = lane;
    op->place = ++places_[lane];
    op->knows = host_knows_;
    for (const OpPtr &b : before) {
        if (b == nullptr) continue;
        op->knows.join(b->knows);
        op->end_us = std::max(op->end_us, b->end_us);
        if (b->done) continue;
        op->before.push_back(b);
        b->next.push_back(op);
    }
    op->end_us += duration_us(machine_, op->task->kind);
    op->n_before = op->before.size();
    op->knows.reach(lane, op->place);
    ++n_added_;
    if (stalled_since_ != std::chrono::steady_clock::time_point{}) work_comes_.notify_all();
    return op;
}

void Engine::want(const OpPtr &op) {
    std::vector<OpPtr> todo = {op};
    while (!todo.empty()) {
        const OpPtr o = std::move(todo.back());
        todo.pop_back();
        if (o == nullptr || o->wanted) continue;
        o->wanted = true;
        ++n_wanted_;
        if (o->n_before == 0) ready_.push_back(o);
        todo.insert(todo.end(), o->before.begin(), o->before.end());
    }
    if (n_wanted_ == 0) return;
    if (!thread_.joinable()) {
        thread_ = std::jthread([this](const std::stop_token &stop) { work(stop); });
    }
    work_comes_.notify_all();
}

void Engine::wait(Lock &lock, const OpPtr &op) {
    if (op == nullptr) return;
    want(op);
    op->awaited = true;
    op_done_.wait(lock, [&op] { return op->done; });
    seen(*op);
}

bool Engine::look(Lock &lock, const OpPtr &op) {
    want(op);
    if (!std::exchange(op->awaited, true)) return false;
    return op_done_.wait_for(lock, std::chrono::milliseconds(1), [&op] { return op->done; });
}

// ---- the thread

void Engine::work(const std::stop_token &stop) {
    Lock lock(mutex);
    while (!stop.stop_requested()) {
        begin_ready(lock);
        if (!active_.empty()) {
            run_round(lock);
        } else if (n_wanted_ > 0) {
            stall(lock);
        } else {
            get_on();
            work_comes_.wait(lock);
        }
    }
}

template <typename F>
void Engine::run_unlocked(Lock &lock, F &&f) {
    visits_.wait(lock, [this] { return n_visitors_ == 0; });
    running_ = true;
    lock.unlock();
    f();
    lock.lock();
    running_ = false;
    visits_.notify_all();
}

void Engine::begin_ready(Lock &lock) {
    while (!ready_.empty()) {
        const OpPtr op = std::move(ready_.front());
        ready_.pop_front();
        get_on();
        begin(lock, op);
    }
}

void Engine::begin(Lock &lock, const OpPtr &op) {
    const Task &task = *op->task;
    if (task.kind == Task::Kind::kMarker || hooks_.error_of(op->device) != cudaSuccess) {
        return finish(op);
    }
    const std::uint32_t id = begun_.add({op->lane, op->place, task.name});
    auto user = std::make_unique<Running>(begun_, id, op->knows, op->device);
    if (task.kind == Task::Kind::kKernel) return begin_kernel(op, std::move(user));
    if (task.kind == Task::Kind::kCollective) return arrive(lock, op, std::move(user));
    run_task(lock, op, *user);
}

void Engine::begin_kernel(const OpPtr &op, std::unique_ptr<Running> user) {
    ++n_kernels_;
    if (const cudaError_t error = hooks_.kernel_begins(); error != cudaSuccess) {
        broken(*op, error, "as the test wants");
        return finish(op);
    }
    if (hooks_.skips(op->task->launch.name)) return finish(op);
    auto run = std::make_unique<LaunchRun>(op->task->launch, options_of(machine_));
    run->device = static_cast<unsigned>(op->device);
    if (machine_.check_order) run->user = user.get();
    scheduler_->add(*run);
    active_.push_back({op, std::move(user), std::move(run)});
}

void Engine::run_task(Lock &lock, const OpPtr &op, Running &user) {
    std::string why;
    run_unlocked(lock, [&] {
        try {
            op->task->run(user);
        } catch (...) {
            why = text_of_current();
        }
    });
    if (!why.empty()) broken(*op, cudaErrorIllegalAddress, why);
    finish(op);
}

// ---- collectives

void Engine::abort(Ranks &ranks, std::size_t rank) {
    ranks.rank[rank].aborted = true;
    for (const Arrival &a : std::exchange(ranks.rank[rank].arrived, {})) {
        leave_undefined(*a.op->task->collective);
        finish(a.op);
    }
    work_comes_.notify_all();
}

void Engine::arrive(Lock &lock, const OpPtr &op, std::unique_ptr<Running> user) {
    const Collective &call = *op->task->collective;
    Ranks::Rank &rank = call.ranks->rank[call.rank];
    if (rank.aborted) {
        leave_undefined(call);
        return finish(op);
    }
    rank.arrived.push_back({op, std::move(user)});
    meeting_.insert(call.ranks);
    if (call.ranks->all_arrived()) meet(lock, *call.ranks);
}

void Engine::meet(Lock &lock, Ranks &ranks) {
    std::vector<Arrival> calls;
    for (Ranks::Rank &r : ranks.rank) {
        calls.push_back(std::move(r.arrived.front()));
        r.arrived.pop_front();
    }
    std::erase_if(meeting_, [](const auto &m) { return m->none_arrived(); });
    std::string why;
    run_unlocked(lock, [&] {
        try {
            run_together(calls);
        } catch (...) {
            why = text_of_current();
        }
    });
    if (!why.empty()) ranks.error = ncclInvalidUsage;
    for (const Arrival &a : calls) {
        if (!why.empty()) broken(*a.op, cudaErrorLaunchFailure, why);
        finish(a.op);
    }
}

// Nobody will come any more.
void Engine::break_up() {
    if (!active_.empty()) return;
    for (const auto &ranks : std::exchange(meeting_, {})) {
        const std::string missing = ranks->missing();
        for (Ranks::Rank &r : ranks->rank) {
            for (const Arrival &a : std::exchange(r.arrived, {})) {
                ranks->error = ncclRemoteError;
                broken(*a.op, cudaErrorLaunchTimeout, cat("waits for ", missing));
                finish(a.op);
            }
        }
    }
}

void Engine::run_round(Lock &lock) {
    const std::uint64_t before = scheduler_->progress();
    run_unlocked(lock, [this] { scheduler_->round(!time_passes_); });
    const std::size_t n_active = active_.size();
    end_launches();
    if (scheduler_->progress() == before && active_.size() == n_active) {
        stall(lock);
    } else {
        get_on();
    }
}

void Engine::end_launches() {
    const auto ended =
        std::stable_partition(active_.begin(), active_.end(),
                              [this](const Active &a) { return scheduler_->runs(*a.run); });
    std::vector<Active> done(std::make_move_iterator(ended),
                             std::make_move_iterator(active_.end()));
    active_.erase(ended, active_.end());
    for (Active &a : done) {
        scheduler_->take_tally(*a.run);
        if (a.run->thrown) {
            try {
                std::rethrow_exception(a.run->thrown);
            } catch (...) {
                broken(*a.op, cudaErrorLaunchFailure, text_of_current());
            }
        } else if (!a.run->faults.empty()) {
            const auto &fault = a.run->faults[0];
            const bool hangs = fault.kind == simt::host::FaultKind::kHang;
            broken(*a.op, hangs ? cudaErrorLaunchTimeout : cudaErrorIllegalAddress, fault.text());
        }
        finish(a.op);
    }
}

// Nothing that runs gets on: others may have to run, or to come.
void Engine::stall(Lock &lock) {
    const auto now = std::chrono::steady_clock::now();
    if (stalled_since_ == std::chrono::steady_clock::time_point{}) stalled_since_ = now;
    for (const OpPtr &op : hooks_.last_ops()) {
        if (op != nullptr && !op->done) want(op);
    }
    if (!ready_.empty()) return;
    const double seconds = std::chrono::duration<double>(now - stalled_since_).count();
    time_passes_ = seconds > hooks_.patience_s();
    if (time_passes_ && (!active_.empty() || seconds > machine_.deadlock_s)) return break_up();
    const std::uint64_t n = n_added_;
    work_comes_.wait_for(lock, std::chrono::milliseconds(1), [&] { return n_added_ != n; });
}

void Engine::get_on() {
    stalled_since_ = {};
    time_passes_ = false;
}

void Engine::broken(const Op &op, cudaError_t error, const std::string &why) {
    hooks_.broken(op.device, error, cat(op.task->name, " on device ", op.device, ": ", why));
}

void Engine::finish(const OpPtr &op) {
    op->done = true;
    --n_wanted_;
    for (const OpPtr &next : op->next) {
        if (--next->n_before == 0 && next->wanted) ready_.push_back(next);
    }
    op->next.clear();
    op->before.clear();
    if (op->awaited) op_done_.notify_all();
}

}  // namespace kimi::cudart
