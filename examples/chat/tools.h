/* The functions that a model may call here: calculate and search_files. --tools declares them. */
#ifndef KIMI_CHAT_TOOLS_H
#define KIMI_CHAT_TOOLS_H

#include "calls.h"

/* The result, or what was wrong with the call. The caller frees it. */
struct text tools_run(const struct call *call);

#endif
