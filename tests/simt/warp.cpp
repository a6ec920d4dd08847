#include "tests/simt/warp.h"

#include "base/error.h"
#include "tests/simt/block.h"
#include "tests/simt/tensor.h"

namespace kimi::simt::host {
namespace {

constexpr std::uint32_t kAllLanes = ~0U;

Block &block_of(const Lanes &lanes) {
    return *lanes.warp->block;
}

// ---- shuffles and votes

struct ShuffleOperands {
    std::uint64_t value;
    int b, width;
    Site site;
    std::uint64_t result;
};

// PTX, shfl.sync: the lane that is read, which is the own one where the wanted one is out of range.
unsigned shuffle_source(Shuffle how, unsigned lane, unsigned b, unsigned width) {
    const unsigned in_segment = width - 1;
    const unsigned first = lane & ~in_segment, last = lane | in_segment;
    switch (how) {
        case Shuffle::kIndex:
            return first | (b & in_segment);
        case Shuffle::kUp:
            return lane >= first + b ? lane - b : lane;
        case Shuffle::kDown:
            return lane + b <= last ? lane + b : lane;
        case Shuffle::kXor:
            return (lane ^ b) <= last ? lane ^ b : lane;
    }
    return lane;
}

template <Shuffle How>
void run_shuffle(const Lanes &lanes) {
    Block &block = block_of(lanes);
    if (block.counts()) ++block.tally().instructions.shuffles;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if (!lanes.has(lane)) continue;
        auto &mine = lanes.of<ShuffleOperands>(lane);
        const unsigned from = shuffle_source(How, lane, static_cast<unsigned>(mine.b) % kWarpSize,
                                             static_cast<unsigned>(mine.width));
        if (!lanes.has(from)) {
            block.fault(lanes.warp->threads[lane], FaultKind::kMissingLanes, mine.site,
                        cat("shuffle reads lane ", from, ", which is not in the mask"));
        }
        mine.result = lanes.of<ShuffleOperands>(from).value;
    }
}

struct BallotOperands {
    bool predicate;
    std::uint32_t result;
};

void run_ballot(const Lanes &lanes) {
    if (block_of(lanes).counts()) ++block_of(lanes).tally().instructions.votes;
    std::uint32_t votes = 0;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if (lanes.has(lane) && lanes.of<BallotOperands>(lane).predicate) votes |= 1U << lane;
    }
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if (lanes.has(lane)) lanes.of<BallotOperands>(lane).result = votes;
    }
}

void run_barrier(const Lanes &lanes) {
    Block &block = block_of(lanes);
    if (block.counts()) ++block.tally().instructions.warp_barriers;
    if (block.checks_races()) block.order().warp_barrier(*lanes.warp, lanes.mask);
}

}  // namespace

std::uint64_t shuffle(Shuffle how, std::uint32_t mask, std::uint64_t value, int b, int width,
                      Site site) {
    Block &block = *current_thread().block;
    if (width <= 0 || width > 32 || (width & (width - 1)) != 0) {
        block.fault(FaultKind::kBadArgument, site, cat("shuffle of width ", width));
    }
    ShuffleOperands o{value, b, width, site, 0};
    switch (how) {
        case Shuffle::kIndex:
            block.collective(mask, run_shuffle<Shuffle::kIndex>, &o, "__shfl_sync", site);
            break;
        case Shuffle::kUp:
            block.collective(mask, run_shuffle<Shuffle::kUp>, &o, "__shfl_up_sync", site);
            break;
        case Shuffle::kDown:
            block.collective(mask, run_shuffle<Shuffle::kDown>, &o, "__shfl_down_sync", site);
            break;
        case Shuffle::kXor:
            block.collective(mask, run_shuffle<Shuffle::kXor>, &o, "__shfl_xor_sync", site);
            break;
    }
    return o.result;
}

std::uint32_t ballot(std::uint32_t mask, bool predicate, const char *name, Site site) {
    BallotOperands o{predicate, 0};
    current_thread().block->collective(mask, run_ballot, &o, name, site);
    return o.result;
}

void warp_barrier(std::uint32_t mask, Site site) {
    Thread &thread = current_thread();
    wait_for_tensor_operations(thread);
    // A block may end in a warp that is not full; the default mask then names all there is.
    if (mask == kAllLanes) mask = thread.warp->exists;
    thread.block->collective(mask, run_barrier, nullptr, "__syncwarp", site);
}

}  // namespace kimi::simt::host
