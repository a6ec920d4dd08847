/* One reply: generated step by step, shown as it comes, and measured. */
#ifndef KIMI_CHAT_REPLY_H
#define KIMI_CHAT_REPLY_H

#include <kimi/kimi.h>
#include <stdint.h>

#include "calls.h"
#include "chat.h"
#include "text.h"

struct reply {
    uint32_t finish_reason; /* KIMI_FINISH_* */
    kimi_error error;       /* of KIMI_FINISH_ERROR */
    struct text reasoning, answer;
    struct calls calls; /* the complete ones */

    uint64_t seed;
    uint64_t prompt_tokens, generated_tokens;
    uint64_t steps, drafted, accepted; /* of the steps after the prompt */
    double prompt_s, decode_s;         /* seconds to the first token, and from there to the last */
    int prompt_was_new;                /* nothing of it was kept from an earlier reply */
};

/* Replies to a request (see conversation.h) or, where request is NULL, to --raw-tokens; tells an
 * error, and with --stats what the reply cost. The caller frees the reply. */
struct reply reply_run(struct chat *chat, const struct text *request);

void reply_free(struct reply *reply);

/* The exit status that tells how the reply ended. */
int reply_outcome(const struct reply *reply);

#endif
