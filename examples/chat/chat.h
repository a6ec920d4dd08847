/* What the parts of the program share. */
#ifndef KIMI_CHAT_CHAT_H
#define KIMI_CHAT_CHAT_H

#include <kimi/kimi.h>
#include <stdint.h>

#include "options.h"
#include "screen.h"
#include "text.h"

struct chat {
    struct options options;
    struct screen screen;
    struct text tools; /* what the file of --tools holds; empty without it */
    kimi_session *session;
    uint64_t n_replies;
};

/* Both return the exit status. */
int one_shot(struct chat *chat);
int dialogue(struct chat *chat);

#endif
