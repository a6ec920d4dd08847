/* --prompt and --raw-tokens: one reply, and its outcome as the exit status. */
#include <stdio.h>
#include <string.h>

#include "chat.h"
#include "conversation.h"
#include "reply.h"
#include "stats.h"

static struct reply reply_to_prompt(struct chat *chat) {
    const struct options *options = &chat->options;
    struct conversation conversation;
    conversation_begin(&conversation, options->system);
    conversation_add_user(&conversation, options->prompt, strlen(options->prompt));
    struct text request = conversation_request(&conversation, options->thinking);
    struct reply reply = reply_run(chat, &request);
    text_free(&request);
    conversation_free(&conversation);
    return reply;
}

int one_shot(struct chat *chat) {
    struct reply reply =
        chat->options.tokens != NULL ? reply_run(chat, NULL) : reply_to_prompt(chat);
    if (reply.finish_reason == KIMI_FINISH_ERROR)
        fprintf(stderr, "kimi-chat: %s\n", reply.error.message);
    if (chat->options.stats) stats_print_json(&reply);
    text_free(&reply.answer);
    return reply_outcome(&reply);
}
