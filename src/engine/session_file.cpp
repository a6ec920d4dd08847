#include "engine/session_file.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/checksum.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/rules_json.h"

namespace kimi {
namespace {

constexpr char kMagic[8] = {'K', 'I', 'M', 'I', 'S', 'E', 'S', 'S'};
constexpr std::uint32_t kVersion = 4;

// What the KV depends on beside the tokens.
struct Origin {
    Digest target{}, drafter{};
    std::uint32_t kv_type = 0;
    float latent_norm_eps = 0, rope_attention_factor = 0;
    std::uint32_t page_tokens = kPageTokens;
    std::uint64_t page_bytes = 0, ring_bytes = 0;

    bool operator==(const Origin &) const = default;
};

struct SavedOptions {
    std::uint64_t seed;
    float temperature, top_p, min_p;
    std::uint32_t top_k, max_tokens, draft_budget, draft_chain, ignore_stop, deadline_ms, logprobs;
};

struct Header {
    char magic[8];
    std::uint32_t version, header_bytes;
    Origin origin;
    SavedOptions options, next_options;
    std::uint64_t rules_bytes, next_rules_bytes, n_tokens, n_cached, reply_begin;
    std::uint32_t drafts, full_begin, ring_begin;
    std::uint32_t phase, finish_reason;
    kimi_status failure;
    std::uint64_t events_taken;
    std::uint64_t checksum;  // of the bytes before it
};
static_assert(std::has_unique_object_representations_v<Digest>);
static_assert(sizeof(Header) == 256 && std::is_trivially_copyable_v<Header>);

Origin origin_of(Engine &engine) {
    const Runner &runner = engine.runner();
    const auto kv = engine.kv();
    Origin origin;
    const Runner::Digests digests = runner.digests();
    origin.target = digests.target;
    origin.drafter = digests.drafter;
    origin.kv_type = static_cast<std::uint32_t>(runner.kv().type);
    origin.latent_norm_eps = runner.weights().layers[0].mla.norm_eps;
    origin.rope_attention_factor = runner.rope_attention_factor();
    origin.page_bytes = runner.memory().page_bytes();
    origin.ring_bytes = runner.memory().ring_bytes();
    return origin;
}

void put(const StateSink &sink, const void *data, std::size_t bytes) {
    const std::uint64_t sum = checksum(data, bytes);
    sink(data, bytes);
    sink(&sum, sizeof sum);
}

SavedOptions save_options(const SessionOptions &o) {
    return {o.sampling.seed,  o.sampling.temperature, o.sampling.top_p, o.sampling.min_p,
            o.sampling.top_k, o.max_tokens,           o.draft_budget,   o.draft_chain,
            o.ignore_stop,    o.deadline_ms,          o.logprobs};
}

bool is_valid(const SavedOptions &o) {
    return o.temperature >= 0 && o.temperature <= kMaxTemperature && o.top_p >= 0 && o.top_p <= 1 &&
           o.min_p >= 0 && o.min_p <= 1 && o.logprobs <= KIMI_MAX_LOGPROBS &&
           (o.draft_budget <= kMaxTreeNodes || o.draft_budget == KIMI_AUTO);
}

SessionOptions read_options(const SavedOptions &o) {
    if (!is_valid(o)) fail(KIMI_CORRUPT, "the saved session's options contradict themselves");
    return {{o.seed, o.temperature, o.top_p, o.min_p, o.top_k},
            o.max_tokens,
            o.draft_budget,
            o.draft_chain != 0,
            o.ignore_stop != 0,
            o.deadline_ms,
            o.logprobs};
}

Header make_header(Session &session, const SessionState &state, const Origin &origin) {
    const KvSequence &kv = session.kv();
    Header h{};
    std::memcpy(h.magic, kMagic, sizeof h.magic);
    h.version = kVersion;
    h.header_bytes = sizeof h;
    h.origin = origin;
    h.options = save_options(state.options);
    h.next_options = save_options(state.next_options);
    h.n_tokens = state.tokens.size();
    h.n_cached = kv.n_tokens;
    h.reply_begin = state.reply_begin;
    h.drafts = kv.drafts;
    h.full_begin = kv.full_begin;
    h.ring_begin = kv.ring_begin;
    h.phase = state.phase;
    h.finish_reason = state.finish_reason;
    h.failure = state.failure.status;
    h.events_taken = state.events_taken;
    return h;
}

// Walks over the bytes; every read checks that they are there.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::span<const std::byte> take(std::size_t n, const char *what) {
        if (n > bytes_.size()) fail(KIMI_CORRUPT, "the saved session ends inside its ", what);
        const auto part = bytes_.first(n);
        bytes_ = bytes_.subspan(n);
        return part;
    }
    // A part and its checksum.
    std::span<const std::byte> checked(std::size_t n, const char *what) {
        const auto part = take(n, what);
        std::uint64_t sum = 0;
        std::memcpy(&sum, take(sizeof sum, what).data(), sizeof sum);
        if (sum != checksum(part.data(), n))
            fail(KIMI_CORRUPT, "the saved session's ", what, " are damaged");
        return part;
    }
    void end() const {
        if (!bytes_.empty())
            fail(KIMI_CORRUPT, "the saved session has ", bytes_.size(), " bytes too many");
    }

  private:
    std::span<const std::byte> bytes_;
};

Header read_header(Reader &reader) {
    Header h;
    std::memcpy(&h, reader.take(sizeof h, "header").data(), sizeof h);
    if (std::memcmp(h.magic, kMagic, sizeof h.magic) != 0)
        fail(KIMI_CORRUPT, "this is not a saved session");
    if (h.version != kVersion)
        fail(KIMI_VERSION_MISMATCH, "the session was saved in version ", h.version,
             " of the format, this library reads version ", kVersion);
    if (h.checksum != checksum(&h, offsetof(Header, checksum)))
        fail(KIMI_CORRUPT, "the saved session's header is damaged");
    // A reply in progress has a token to go on from.
    const std::uint64_t n_pending = h.n_tokens - h.n_cached;
    if (h.header_bytes != sizeof h || h.n_cached > h.n_tokens || h.n_tokens > UINT32_MAX ||
        h.full_begin > h.n_cached || h.ring_begin > h.n_cached ||
        (h.phase != KIMI_PHASE_FINISHED && n_pending == 0))
        fail(KIMI_CORRUPT, "the saved session's header contradicts itself");
    return h;
}

SessionState read_state(const Header &h, Reader &reader, Engine &engine) {
    SessionState state;
    const auto rules = [&](std::uint64_t bytes) {
        const auto part = reader.checked(bytes, "rules");
        return read_rules(engine, {reinterpret_cast<const char *>(part.data()), part.size()});
    };
    state.rules = rules(h.rules_bytes);
    state.next_rules = rules(h.next_rules_bytes);
    state.options = read_options(h.options);
    state.next_options = read_options(h.next_options);
    state.reply_begin = h.reply_begin;
    state.phase = h.phase;
    state.finish_reason = h.finish_reason;
    state.failure = {h.failure, "the reply had ended with this error before the session was saved"};
    state.events_taken = h.events_taken;
    const auto tokens = reader.checked(h.n_tokens * sizeof(std::int32_t), "tokens");
    state.tokens.resize(h.n_tokens);
    std::copy(tokens.begin(), tokens.end(),
              std::as_writable_bytes(std::span(state.tokens)).begin());
    return state;
}

// The engine is held for one page at a time, so that others go on meanwhile.
void read_kv(const Header &h, Reader &reader, Session &session) {
    Engine &engine = session.engine();
    KvSequence &kv = session.kv();
    KvMemory &memory = engine.runner().memory();
    engine.kv()->reserve(kv, static_cast<std::uint32_t>(h.n_cached));
    for (std::size_t i = 0; i < pages_for(h.n_cached); ++i) {
        const auto page = reader.checked(h.origin.page_bytes, "pages");
        const auto locked = engine.kv();
        memory.write_page(kv.pages[i], page.data());
    }
    const auto locked = engine.kv();
    if (h.drafts != 0) {
        const auto ring = reader.checked(h.origin.ring_bytes, "drafter state");
        if (kv.drafts && !ring.empty()) memory.write_ring(kv.ring, ring.data());
    }
    reader.end();
    kv.n_tokens = static_cast<std::uint32_t>(h.n_cached);
    kv.full_begin = h.drafts != 0 ? h.full_begin : kv.n_tokens;
    kv.ring_begin = h.drafts != 0 ? h.ring_begin : kv.n_tokens;
}

void check_origin(const Origin &origin, const Origin &mine) {
    if (origin.target != mine.target)
        fail(KIMI_VERSION_MISMATCH, "the session was saved with another checkpoint");
    if (origin.drafter != mine.drafter)
        fail(KIMI_VERSION_MISMATCH, "the session was saved with another drafter, or with none");
    if (origin.kv_type != mine.kv_type)
        fail(KIMI_VERSION_MISMATCH, "the session was saved with another KV type");
    if (origin != mine)
        fail(KIMI_VERSION_MISMATCH, "the session was saved with other numeric options");
}

}  // namespace

void save_session(Session &session, const StateSink &sink) {
    Engine &engine = session.engine();
    const SessionState state = session.state();
    const std::string rules = dump_rules(state.rules), next_rules = dump_rules(state.next_rules);
    Header header = make_header(session, state, origin_of(engine));
    header.rules_bytes = rules.size();
    header.next_rules_bytes = next_rules.size();
    header.checksum = checksum(&header, offsetof(Header, checksum));
    sink(&header, sizeof header);
    put(sink, rules.data(), rules.size());
    put(sink, next_rules.data(), next_rules.size());
    put(sink, session.tokens().data(), session.tokens().size_bytes());
    const KvSequence &kv = session.kv();
    KvMemory &memory = engine.runner().memory();
    std::vector<std::byte> part(std::max(header.origin.page_bytes, header.origin.ring_bytes));
    for (std::size_t i = 0; i < pages_for(kv.n_tokens); ++i) {
        {
            const auto locked = engine.kv();
            memory.read_page(kv.pages[i], part.data());
        }
        put(sink, part.data(), header.origin.page_bytes);
    }
    if (!kv.drafts) return;
    if (header.origin.ring_bytes > 0) {
        const auto locked = engine.kv();
        memory.read_ring(kv.ring, part.data());
    }
    put(sink, part.data(), header.origin.ring_bytes);
}

std::unique_ptr<Session> restore_session(std::shared_ptr<Engine> engine,
                                         std::span<const std::byte> bytes, bool recompute) {
    Reader reader(bytes);
    const Header header = read_header(reader);
    const Origin mine = origin_of(*engine);
    if (!recompute || header.origin.target != mine.target) check_origin(header.origin, mine);
    auto session = std::make_unique<Session>(engine, read_state(header, reader, *engine));
    try {
        check_origin(header.origin, mine);
        read_kv(header, reader, *session);
    } catch (...) {
        if (!recompute) throw;
        engine->kv()->truncate(session->kv(), 0);
    }
    session->update_progress();
    return session;
}

}  // namespace kimi
