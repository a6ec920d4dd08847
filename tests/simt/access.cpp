#include "tests/simt/access.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "tests/simt/async.h"
#include "tests/simt/block.h"
#include "tests/simt/scheduler.h"

namespace kimi::simt::host {
namespace {

// The states of n bytes (1, 2, 4, 8 or 16) at once.
struct States {
    std::uint64_t low = 0, high = 0;

    static std::uint64_t all(unsigned n, std::uint8_t state) {
        return (n >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * n) - 1) &
               0x0101010101010101U * state;
    }
    static States load(const std::uint8_t *p, unsigned n) {
        States s;
        switch (n) {
            case 16:
                std::memcpy(&s.high, p + 8, 8);
                [[fallthrough]];
            case 8:
                std::memcpy(&s.low, p, 8);
                break;
            case 4:
                std::memcpy(&s.low, p, 4);
                break;
            case 2:
                std::memcpy(&s.low, p, 2);
                break;
            default:
                s.low = *p;
        }
        return s;
    }
    void store(std::uint8_t *p, unsigned n) const {
        switch (n) {
            case 16:
                std::memcpy(p + 8, &high, 8);
                [[fallthrough]];
            case 8:
                std::memcpy(p, &low, 8);
                break;
            case 4:
                std::memcpy(p, &low, 4);
                break;
            case 2:
                std::memcpy(p, &low, 2);
                break;
            default:
                *p = static_cast<std::uint8_t>(low);
        }
    }
    bool all_have(unsigned n, std::uint8_t state) const {
        const std::uint64_t mask = all(n, state);
        return (low & mask) == mask && (n < 16 || (high & mask) == mask);
    }
    bool any_has(unsigned n, std::uint8_t state) const {
        const std::uint64_t mask = all(n, state);
        return (low & mask) != 0 || (n == 16 && (high & mask) != 0);
    }
    void add(unsigned n, std::uint8_t state) {
        const std::uint64_t mask = all(n, state);
        low |= mask;
        if (n == 16) high |= mask;
    }
};

// Blocks are told apart modulo 255.
std::uint8_t folded(std::uint64_t block_number) {
    return static_cast<std::uint8_t>(1 + block_number % 255);
}

bool is_write(Touch how) {
    return how == Touch::kStore || how == Touch::kVolatileStore || how == Touch::kAtomic;
}

Op op_of(Touch how) {
    if (how == Touch::kAtomic) return Op::kAtomic;
    return is_write(how) ? Op::kStore : Op::kLoad;
}

void check_overlap(const Thread &thread, const Memory &m, std::size_t offset, unsigned bytes,
                   Site site) {
    const std::uint8_t mine = folded(thread.block->number());
    for (unsigned i = 0; i < bytes; ++i) {
        const std::uint8_t by = m.stored_by[offset + i];
        if (by == 0 || by == mine) continue;
        thread.block->fault(thread, FaultKind::kWriteOverlap, site, {}, m.name, offset + i);
    }
}

void mark_store(const Thread &thread, const Memory &m, std::size_t offset, unsigned bytes,
                Touch how, Site site) {
    std::uint8_t *state = m.state.get() + offset;
    States s = States::load(state, bytes);
    const Block &block = *thread.block;
    std::uint8_t now = Memory::kWritten;
    if (block.counts()) {
        if (how == Touch::kStore && !m.may_overlap && block.run().options.alone &&
            s.any_has(bytes, Memory::kStored)) {
            check_overlap(thread, m, offset, bytes, site);
        }
        now |= Memory::kStored;
        std::memset(m.stored_by.get() + offset, folded(block.number()), bytes);
    }
    s.add(bytes, now);
    s.store(state, bytes);
}

void check_order(const Thread &thread, const Memory &m, std::size_t offset, std::uint64_t bytes,
                 bool write, Site site) {
    User *user = thread.block->run().user;
    if (user == nullptr || !m.uses) return;
    if (const std::uint32_t other = use(m.first_use(), offset, bytes, *user, write)) {
        thread.block->fault(thread, FaultKind::kUnordered, site,
                            cat(write ? "written" : "read", " while nothing orders ",
                                user->name_of(other), " before"),
                            m.name, offset);
    }
}

// Also the reading half of an atomic.
void mark_load(const Thread &thread, const Memory &m, std::size_t offset, unsigned bytes, Touch how,
               Site site) {
    std::uint8_t *state = m.state.get() + offset;
    States s = States::load(state, bytes);
    if (!s.all_have(bytes, Memory::kWritten)) [[unlikely]] {
        thread.block->fault(thread, FaultKind::kUnwrittenGlobal, site, {}, m.name, offset);
    }
    if (!thread.block->counts()) return;
    if (how == Touch::kReadOnlyLoad && s.any_has(bytes, Memory::kStored) &&
        thread.block->run().options.alone) {
        thread.block->fault(thread, FaultKind::kReadOnlyWritten, site, {}, m.name, offset);
    }
    if (s.all_have(bytes, Memory::kRead)) return;
    s.add(bytes, Memory::kRead);
    s.store(state, bytes);
}

void mark(const Thread &thread, const Memory &m, std::size_t offset, unsigned bytes, Touch how,
          Site site) {
    if (how != Touch::kStore && how != Touch::kVolatileStore) {
        mark_load(thread, m, offset, bytes, how, site);
    }
    if (is_write(how)) mark_store(thread, m, offset, bytes, how, site);
    // Volatile and atomic accesses are what streams order themselves with.
    const bool plain = how <= Touch::kStore;
    if (plain) check_order(thread, m, offset, bytes, how == Touch::kStore, site);
}

// Whether check_global() or check_shared() has nothing to say.
bool is_fine(const Block &block, const GlobalPlace &place, unsigned bytes) {
    const Memory *m = place.memory;
    if (m == nullptr) return false;
    const std::size_t offset = m->offset_of(place.address);
    return m->live && offset <= m->bytes && bytes <= m->bytes - offset &&
           place.address % bytes == 0 &&
           (m->visible_to.load(std::memory_order_relaxed) >> block.run().device & 1U) != 0;
}

bool is_fine(const Block &block, const SharedPlace &place, unsigned bytes) {
    return place.at >= place.begin && place.at <= place.end && bytes <= place.end - place.at &&
           place.end <= block.shared_bytes() && place.at % bytes == 0;
}

}  // namespace

void check_global(const Thread &thread, const GlobalPlace &place, std::uint64_t bytes,
                  unsigned alignment, const char *what, Site site) {
    Block &block = *thread.block;
    const Memory *m = place.memory;
    if (m == nullptr) {
        block.fault(
            thread, FaultKind::kOutOfBounds, site,
            cat(what, place.address == 0 ? " through a null pointer" : " outside device memory"));
    }
    const std::size_t offset = m->offset_of(place.address);
    if (!m->live) {
        block.fault(thread, FaultKind::kOutOfBounds, site, cat(what, " of released memory"),
                    m->name, offset);
    }
    if (offset > m->bytes || bytes > m->bytes - offset) {
        block.fault(thread, FaultKind::kOutOfBounds, site,
                    cat(what, " of ", bytes, " bytes, the buffer has ", m->bytes, " (position ",
                        static_cast<std::int64_t>(offset), ")"),
                    m->name, offset);
    }
    const unsigned device = block.run().device;
    if ((m->visible_to.load(std::memory_order_relaxed) >> device & 1U) == 0) {
        block.fault(thread, FaultKind::kOutOfBounds, site,
                    cat(what, " of memory that device ", device, " has no access to"), m->name,
                    offset);
    }
    if (place.address % alignment != 0) {
        block.fault(thread, FaultKind::kMisaligned, site,
                    cat(what, " that needs a multiple of ", alignment, " bytes"), m->name, offset);
    }
}

void check_shared(const Thread &thread, const SharedPlace &place, std::uint64_t bytes,
                  unsigned alignment, const char *what, Site site) {
    Block &block = *thread.block;
    if (place.at < place.begin || place.at > place.end || bytes > place.end - place.at ||
        place.end > block.shared_bytes()) {
        block.fault(thread, FaultKind::kOutOfBounds, site,
                    cat(what, " of ", bytes, " bytes at byte ",
                        static_cast<std::int32_t>(place.at - place.begin), " of a shared array of ",
                        place.end - place.begin, " bytes"),
                    "(shared)", place.at);
    }
    if (place.at % alignment != 0) {
        block.fault(thread, FaultKind::kMisaligned, site,
                    cat(what, " that needs a multiple of ", alignment, " bytes"), "(shared)",
                    place.at);
    }
}

void mark_global_read(const Thread &thread, const GlobalPlace &place, std::uint64_t bytes,
                      Site site) {
    const std::size_t offset = place.memory->offset_of(place.address);
    for (std::uint64_t i = 0; i < bytes;) {
        const unsigned step =
            bytes - i >= 16 ? 16 : std::bit_floor(static_cast<unsigned>(bytes - i));
        mark_load(thread, *place.memory, offset + i, step, Touch::kLoad, site);
        i += step;
    }
    check_order(thread, *place.memory, offset, bytes, false, site);
}

std::byte *touch(const GlobalPlace &place, unsigned bytes, Touch how, Site site) {
    Thread &thread = current_thread();
    Block &block = *thread.block;
    if (!is_fine(block, place, bytes)) [[unlikely]] {
        check_global(thread, place, bytes, bytes, is_write(how) ? "write" : "read", site);
    }
    if (block.counts()) {
        block.make_room(thread, site);
        block.log(thread, site, place.memory, Access::pack(place.address, bytes, op_of(how)));
    }
    mark(thread, *place.memory, place.memory->offset_of(place.address), bytes, how, site);
    if (is_write(how) && how != Touch::kAtomic) block.made_progress();
    return reinterpret_cast<std::byte *>(place.address);
}

std::byte *touch(const SharedPlace &place, unsigned bytes, Touch how, Site site) {
    Thread &thread = current_thread();
    Block &block = *thread.block;
    if (!is_fine(block, place, bytes)) [[unlikely]] {
        check_shared(thread, place, bytes, bytes, is_write(how) ? "write" : "read", site);
    }
    if (how != Touch::kLoad) wait_for_tensor_operations(thread);
    if (block.counts()) {
        block.make_room(thread, site);
        block.log(thread, site, nullptr, Access::pack(place.at, bytes, op_of(how)));
    }
    Shadow &shadow = block.shadow();
    switch (how) {
        case Touch::kLoad:
        case Touch::kReadOnlyLoad:
            shadow.read(thread, place.at, bytes, site);
            break;
        case Touch::kStore:
            shadow.write(thread, place.at, bytes, site);
            break;
        case Touch::kVolatileLoad:
            shadow.atomic(thread, place.at, bytes, true, false, site);
            break;
        case Touch::kVolatileStore:
            shadow.atomic(thread, place.at, bytes, false, true, site);
            break;
        case Touch::kAtomic:
            shadow.atomic(thread, place.at, bytes, true, true, site);
            break;
    }
    if (is_write(how) && how != Touch::kAtomic) block.made_progress();
    return block.shared_memory() + place.at;
}

bool poll(const void *address, std::uint64_t value, Site site) {
    return current_thread().block->poll(reinterpret_cast<std::uintptr_t>(address), value, site);
}

void changed() {
    current_thread().block->made_progress();
}

}  // namespace kimi::simt::host
