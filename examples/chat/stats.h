/* What a reply cost, for programs and for people. */
#ifndef KIMI_CHAT_STATS_H
#define KIMI_CHAT_STATS_H

#include "reply.h"

/* One line of JSON on stderr. */
void stats_print_json(const struct reply *reply);
/* The same for the eyes. */
void stats_print(const struct reply *reply);

#endif
