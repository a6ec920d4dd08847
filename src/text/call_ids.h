// Tool call ids as Kimi was trained on them: functions.NAME:N.
#pragma once

#include "text/chat.h"

namespace kimi {

// Rewrites the ids of tool calls that are not functions.NAME:N, NAME being the called function, and
// the tool_call_id of their results. N is the call's place among all calls of the conversation, or
// the next number that is free. Only calls before it and in its own message count, so that ids stay
// when the conversation grows. A result belongs to the last message that has calls of its id; of
// several such calls, to the first that has no result yet. Throws KIMI_INVALID_ARGUMENT where a
// call to rewrite has no function name.
void canonicalize_call_ids(Chat &chat);

}  // namespace kimi
