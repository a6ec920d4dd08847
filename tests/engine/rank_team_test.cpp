#include "engine/rank_team.h"

#include <atomic>

#include "check.h"

using namespace kimi;

namespace {

using Seconds = std::chrono::duration<double>;

// A team whose jobs count in a model that outlives nothing but the last thread.
struct Team {
    struct Model {
        std::atomic<bool> go_on{false};
        std::atomic<int> n_calls{0};
    };
    std::shared_ptr<Communicator> ranks;
    std::shared_ptr<Model> model = std::make_shared<Model>();
    RankTeam team;

    explicit Team(std::uint32_t n) : ranks(std::make_shared<Communicator>(n)), team(ranks, model) {
        team.set_patience({Seconds(0.1), Seconds(0.1)});
    }
    void meet(std::uint32_t rank) const {
        ranks->exchange(rank, nullptr, [](auto) {});
    }
};

}  // namespace

TEST_CASE("rank team: every rank runs every job once") {
    Team t(5);
    for (int job = 1; job <= 200; ++job) {
        t.team.run([&](std::uint32_t rank) {
            t.meet(rank);
            t.model->n_calls += 1 << (4 * rank);
        });
        REQUIRE(t.model->n_calls == 0x11111);
        t.model->n_calls = 0;
    }
    CHECK(t.team.stop() == 0);
}

TEST_CASE("rank team: a slow rank is waited for as long as others get on") {
    Team t(2);
    t.team.run([&](std::uint32_t rank) {
        for (int i = 0; i < 5; ++i) {
            if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
            t.meet(rank);
        }
        ++t.model->n_calls;
    });
    CHECK(t.model->n_calls == 2);
}

TEST_CASE("rank team: what a rank throws ends the job on all ranks, and all later jobs") {
    Team t(3);
    const auto failing = [&](std::uint32_t rank) {
        if (rank == 1) fail(KIMI_NUMERIC, "bad number");
        t.meet(rank);
        ++t.model->n_calls;
    };
    const Error error = test::error_of([&] { t.team.run(failing); });
    CHECK(error.status == KIMI_NUMERIC);
    CHECK(error.text == "rank 1: bad number");
    CHECK(t.model->n_calls == 0);
    const Error later = test::error_of([&] { t.team.run([](std::uint32_t) {}); });
    CHECK(later.status == KIMI_DEVICE_LOST);
    CHECK(test::contains(later.text, "bad number"));
    CHECK(t.team.stop() == 0);
}

TEST_CASE("rank team: a stuck rank is left behind and keeps the model until it gets on") {
    auto t = std::make_unique<Team>(4);
    Team::Model *const model = t->model.get();
    const Error error = test::error_of([&] {
        t->team.run([model, ranks = t->ranks.get()](std::uint32_t rank) {
            while (rank == 2 && !model->go_on) std::this_thread::yield();
            ranks->exchange(rank, nullptr, [](auto) {});
        });
    });
    CHECK(error.status == KIMI_DEVICE_LOST);
    CHECK(error.text == "rank 2 is stuck: the ranks did not get on for 0.1 seconds");
    CHECK(t->team.stop() == 1);
    const std::weak_ptr<Team::Model> kept = t->model;
    t.reset();
    CHECK(!kept.expired());
    model->go_on = true;
    while (!kept.expired()) std::this_thread::yield();
}
