// Every call of CUDA and NCCL that the backend makes fails once, while an engine is created
// and in the middle of a reply: a status that says what failed, nothing left behind, and the next
// engine of the process works.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "engine/sessions.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

using Tokens = std::vector<std::int32_t>;

// Of cuda_runtime_api.h and nccl.h.
constexpr int kCudaOutOfMemory = 2, kCudaEcc = 214, kCudaIllegalAddress = 700, kNcclSystemError = 2;

int status_of(const std::string &call) {
    if (call.starts_with("nccl")) return kNcclSystemError;
    if (call == "cudaMalloc" || call == "cudaMallocHost") return kCudaOutOfMemory;
    return call == "kernel" ? kCudaIllegalAddress : kCudaEcc;
}

// Nobody can do more about an end that fails than go on. What the call would have given back stays.
const std::set<std::string> kEnds = {
    "cudaEventDestroy",     "cudaFree",          "cudaFreeHost",   "cudaGraphDestroy",
    "cudaGraphExecDestroy", "cudaStreamDestroy", "ncclCommDestroy"};
// Sums go through NCCL instead, and the log says so.
const std::set<std::string> kOfPeers = {"cudaDeviceCanAccessPeer", "cudaDeviceEnablePeerAccess"};
// Its answer is not used: it only makes the thread's next error a new one.
const std::set<std::string> kForgets = {"cudaGetLastError"};

// Which calls of a function fail: 1, 2, 3, ..., or fewer of them, ever farther apart.
enum class Pace : std::uint8_t { all, some, few };
std::uint64_t after(std::uint64_t n, Pace pace) {
    if (pace == Pace::all) return n + 1;
    return (pace == Pace::some ? 4 : 16) * n + 1;
}

class EveryCall {
  public:
    EveryCall(int n_devices, bool graphs, bool by_context = false)
        : tiny_(cat(by_context ? test::context_ranks(n_devices) : test::cuda_ranks(n_devices),
                    R"(, "graphs": )",
                    graphs ? R"({"widths": [8], "sessions": [1]})" : R"({"eager": true})")) {
        machine_.n_devices = n_devices;
        machine_.n_sms = 4;
        machine_.patience_after_failure_s = 0.05;
        machine_.deadlock_s = 5;  // nothing may come to that, on a busy machine either
        cudart::start(machine_);
        {
            Reply reply(tiny_.open());
            of_creation_ = cudart::called();
            test::finish_prompt(reply.session);
            std::map<std::string, std::uint64_t> before;
            for (const std::string &call : cudart::called()) before[call] = cudart::n_calls(call);
            test::step(reply.session);
            for (const std::string &call : cudart::called())
                if (cudart::n_calls(call) > before[call]) of_step_.push_back(call);
            expected_ = reply.end();
        }
        REQUIRE(expected_.size() == 3 + kReply);
        REQUIRE(cudart::leaks() == "");
    }

    void fail_creation(Pace pace) const {
        for (const std::string &call : of_creation_)
            each(call, pace, [&](std::uint64_t n) { return creation_fails(call, n); });
    }
    // The step behind the prompt's.
    void fail_step(Pace pace) const {
        for (const std::string &call : of_step_)
            each(call, pace, [&](std::uint64_t n) { return step_fails(call, n); });
    }

  private:
    static constexpr std::uint32_t kReply = 4;

    static SessionOptions drafting() {
        SessionOptions options = test::plain_greedy(kReply);
        options.draft_budget = 3;
        return options;
    }
    struct Reply {
        explicit Reply(std::shared_ptr<Engine> engine) : session(std::move(engine), drafting()) {
            session.append(Tokens{1, 2, 3});
        }
        Tokens tokens() const { return {session.tokens().begin(), session.tokens().end()}; }
        Tokens end() {
            test::finish(session);
            return tokens();
        }
        Session session;
    };

    // Until fails(n) says that there was no nth call; what it did then went well, after all the
    // failures before.
    template <typename Fails>
    void each(const std::string &call, Pace pace, const Fails &fails) const {
        CAPTURE(call);
        // How often a wait asks differs from run to run.
        if (kEnds.contains(call) || call.ends_with("Query")) pace = Pace::some;
        cudart::start(machine_);
        for (std::uint64_t n = 1;; n = after(n, pace)) {
            CAPTURE(n);
            const bool reached = fails(n);
            // Of an end that failed, something is left.
            if (!kEnds.contains(call)) CHECK(cudart::leaks() == "");
            if (!reached) return;
            // A kernel's fault breaks the device for the rest of the process, as in CUDA.
            if (call == "kernel" || kEnds.contains(call)) cudart::start(machine_);
        }
    }

    static void check_error(const Error &error, kimi_status status) {
        CAPTURE(error.text);
        CHECK(error.status == status);
        const bool tells_why = test::contains(error.text, "uncorrectable ECC error") ||
                               test::contains(error.text, "illegal memory access") ||
                               test::contains(error.text, "unhandled system error") ||
                               test::contains(error.text, " bytes") ||
                               test::contains(error.text, "waited for GPU");
        CHECK(tells_why);
    }

    bool begins_as_expected(const Tokens &tokens) const {
        return std::mismatch(tokens.begin(), tokens.end(), expected_.begin(), expected_.end())
                   .first == tokens.end();
    }

    static kimi_status status_of_creation(const std::string &call) {
        if (call == "cudaMalloc") return KIMI_DEVICE_OUT_OF_MEMORY;
        if (call == "cudaMallocHost") return KIMI_OUT_OF_MEMORY;
        return call == "cudaGetDeviceCount" ? KIMI_NOT_FOUND : KIMI_DEVICE_LOST;
    }

    bool creation_fails(const std::string &call, std::uint64_t n) const {
        const std::uint64_t before = cudart::n_calls(call);
        const auto reached = [&] { return cudart::n_calls(call) - before >= n; };
        std::string log;
        cudart::fail_nth(call, n, status_of(call));
        try {
            const auto engine = tiny_.open({Log(test::keep_lines, &log), {}});
            const bool failed = reached();
            cudart::fail_no_more();
            CHECK((!failed || kEnds.contains(call) || kOfPeers.contains(call) ||
                   kForgets.contains(call)));
            if (failed && kOfPeers.contains(call))
                CHECK(test::contains(log, "sums go through NCCL"));
            Reply reply(engine);
            test::finish_prompt(reply.session);
            test::step(reply.session);
            CHECK(reply.session.committed().size() > 0);
            CHECK(begins_as_expected(reply.tokens()));
            return failed;
        } catch (const Error &error) {
            const bool failed = reached();
            cudart::fail_no_more();
            CHECK(failed);
            check_error(error, status_of_creation(call));
            return failed;
        }
    }

    bool step_fails(const std::string &call, std::uint64_t n) const {
        cudart::fail_no_more();  // the engine before, where a rank may have waited, is gone
        Reply reply(tiny_.open());
        test::finish_prompt(reply.session);
        const std::uint64_t before = cudart::n_calls(call);
        cudart::fail_nth(call, n, status_of(call));
        test::step(reply.session);
        const bool reached = cudart::n_calls(call) - before >= n;
        if (!reached) {
            cudart::fail_no_more();
            CHECK(reply.end() == expected_);
            return false;
        }
        const StepResult &result = reply.session.result();
        check_error({result.status, result.error}, KIMI_DEVICE_LOST);
        CHECK(result.finish_reason == KIMI_FINISH_ERROR);
        reply.session.append(Tokens{4, 5});
        test::step(reply.session);
        CHECK(result.status == KIMI_DEVICE_LOST);
        CHECK(result.error == "the engine failed earlier and does no further work");
        return true;
    }

    cudart::Machine machine_;
    test::TinyCuda tiny_;
    Tokens expected_;
    std::vector<std::string> of_creation_, of_step_;
};

}  // namespace

TEST_CASE("cuda: calls that fail while an engine is created, or in a reply, end in a status") {
    const EveryCall eager(1, false);
    eager.fail_creation(Pace::few);
    eager.fail_step(Pace::few);
}

TEST_SUITE_BEGIN("slow");

TEST_CASE("cuda: every call that fails on one GPU ends in a status") {
    const EveryCall eager(1, false);
    eager.fail_creation(Pace::all);
    eager.fail_step(Pace::all);
    const EveryCall graphs(1, true);
    graphs.fail_creation(Pace::some);
    graphs.fail_step(Pace::all);
}

TEST_CASE("cuda: calls that fail on two GPUs end in a status") {
    const EveryCall eager(2, false);
    eager.fail_creation(Pace::some);
    eager.fail_step(Pace::some);
    const EveryCall graphs(2, true);
    graphs.fail_creation(Pace::some);
    graphs.fail_step(Pace::some);
}

TEST_CASE("cuda: calls that fail on two GPUs with the context split end in a status") {
    EveryCall(2, false, true).fail_step(Pace::some);
}

TEST_SUITE_END();
