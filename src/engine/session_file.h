// A session as bytes: its tokens, reply and KV, to be continued later, by another process too.
//
// Layout, little-endian: a header with magic, version, the digests of what made the KV, options,
// sizes and its checksum; the rules of the reply and of the next one, with a checksum each; the
// tokens and theirs; every page
// and its checksum; the ring and its checksum. There is nothing between or behind these parts, so
// that every byte is covered by a checksum.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "engine/session.h"

namespace kimi {

// Takes the bytes in order.
using StateSink = std::function<void(const void *data, std::size_t bytes)>;

void save_session(Session &session, const StateSink &sink);

// The session that the bytes describe. Throws KIMI_CORRUPT for damage, KIMI_VERSION_MISMATCH where
// another version of libkimi, another model or other numeric options made it, and what sessions
// throw. With `recompute`, only the tokens must be right and of this model: where the KV cannot be
// used, it is computed again by the next steps.
std::unique_ptr<Session> restore_session(std::shared_ptr<Engine> engine,
                                         std::span<const std::byte> bytes, bool recompute);

}  // namespace kimi
