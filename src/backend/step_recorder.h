// What one device did in each of the last passes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kimi {

// What the driver of a GPU tells; absent: it does not.
struct GpuReading {
    std::int64_t at = 0;  // ns of the steady clock
    // % of the last time, up to a second, in which kernels ran, and in which memory was used.
    std::optional<std::uint64_t> gpu_percent, memory_percent;
    // Over PCIe since the reading before.
    std::optional<std::uint64_t> sent_bytes_per_s, received_bytes_per_s;
};

// Times are in nanoseconds. Bytes are those that must move: in an operation each byte counts once,
// however many rows use it.
struct StepRecord {
    std::int64_t begin = 0, end = 0;  // of the steady clock
    // Parts of that time: attention over the KV, target's and drafter's; the routed experts;
    // waiting for other devices. What is left is other work.
    std::int64_t attention = 0, experts = 0, collectives = 0;
    std::uint32_t prompt_rows = 0, decode_rows = 0;
    std::uint32_t experts_hit = 0;                 // whose weights were read, over all layers
    std::uint64_t weight_bytes = 0, kv_bytes = 0;  // of matrices, and of the KV: read
    std::uint64_t sent_bytes = 0, received_bytes = 0;
    std::optional<GpuReading> gpu;  // taken in the pass

    std::int64_t duration() const { return end - begin; }
    std::int64_t other() const { return duration() - attention - experts - collectives; }
};

// Adds the nanoseconds of its scope to a sum.
class RecordedTime {
  public:
    explicit RecordedTime(std::int64_t &sum) : sum_(sum), begin_(now()) {}
    RecordedTime(const RecordedTime &) = delete;
    RecordedTime &operator=(const RecordedTime &) = delete;
    ~RecordedTime() { sum_ += now() - begin_; }

    static std::int64_t now() {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }

  private:
    std::int64_t &sum_;
    std::int64_t begin_;
};

// Used by the thread that runs the device. Allocates nothing after construction.
class StepRecorder {
  public:
    static constexpr std::size_t kSteps = 4096;

    void begin() {
        step_ = {};
        step_.begin = RecordedTime::now();
    }
    // The step in progress, for the device and its communicator to add to.
    StepRecord &step() { return step_; }
    void end(std::uint32_t prompt_rows, std::uint32_t decode_rows) {
        step_.end = RecordedTime::now();
        step_.prompt_rows = prompt_rows;
        step_.decode_rows = decode_rows;
        ring_[n_++ % kSteps] = step_;
    }

    // The last steps, oldest first.
    std::vector<StepRecord> steps() const {
        std::vector<StepRecord> out;
        for (std::size_t i = n_ > kSteps ? n_ - kSteps : 0; i < n_; ++i)
            out.push_back(ring_[i % kSteps]);
        return out;
    }

  private:
    StepRecord step_;
    std::vector<StepRecord> ring_ = std::vector<StepRecord>(kSteps);
    std::size_t n_ = 0;
};

}  // namespace kimi
