/* The tool calls of a reply. */
#ifndef KIMI_CHAT_CALLS_H
#define KIMI_CHAT_CALLS_H

#include <kimi/kimi.h>

#include "text.h"

struct call {
    struct text id, name, arguments;
};

struct calls {
    struct call *list;
    size_t n;
};

/* Adds the call of a KIMI_EVENT_CALL. */
void calls_add(struct calls *calls, const kimi_event *event);
void calls_free(struct calls *calls);

#endif
