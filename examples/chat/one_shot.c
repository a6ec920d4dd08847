/* --prompt and --raw-tokens: one reply, and its outcome as the exit status. */
#include <string.h>

#include "answer.h"
#include "chat.h"
#include "conversation.h"

static struct reply reply_to_prompt(struct chat *chat) {
    const struct options *options = &chat->options;
    struct conversation conversation;
    conversation_begin(&conversation, options->system, chat->tools.data);
    conversation_add_user(&conversation, options->prompt, strlen(options->prompt));
    struct reply reply = answer(chat, &conversation);
    conversation_free(&conversation);
    return reply;
}

int one_shot(struct chat *chat) {
    struct reply reply =
        chat->options.tokens != NULL ? reply_run(chat, NULL) : reply_to_prompt(chat);
    reply_free(&reply);
    return reply_outcome(&reply);
}
