// The rules of a reply as text, for saved sessions.
#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"
#include "engine/reply_rules.h"

namespace kimi {

std::string dump_rules(const ReplyRules &rules);

// Throws KIMI_CORRUPT where the text is not what dump_rules() gives, and what compiling the
// constraint throws.
ReplyRules read_rules(Engine &engine, std::string_view text);

}  // namespace kimi
