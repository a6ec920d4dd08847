/* The answer to a message: a reply, and before it those that call tools. */
#ifndef KIMI_CHAT_ANSWER_H
#define KIMI_CHAT_ANSWER_H

#include "chat.h"
#include "conversation.h"
#include "reply.h"

/* Replies to the conversation, runs the tools that are called and adds calls and results to it,
 * until a reply calls none. The caller frees that one. */
struct reply answer(struct chat *chat, struct conversation *conversation);

#endif
