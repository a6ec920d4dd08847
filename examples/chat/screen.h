/* Where output goes: replies to stdout, everything else to stderr. */
#ifndef KIMI_CHAT_SCREEN_H
#define KIMI_CHAT_SCREEN_H

#include <stddef.h>
#include <stdint.h>

struct screen {
    int stderr_is_terminal;
    int colour;   /* on stderr */
    int progress; /* length of the progress message that stands on stderr's last line */
};

struct screen screen_open(void);
/* Part of a reply. Ends the program where stdout takes no more: quietly where its reader left. */
void screen_reply(const char *text, size_t n);
/* Part of the reasoning: for the eyes only. */
void screen_reasoning(const struct screen *screen, const char *text, size_t n);
/* A line for the eyes only. */
void screen_note(const struct screen *screen, const char *text);
/* Shows how far something long has come, only on a terminal. The next call replaces it. */
void screen_progress(struct screen *screen, const char *what, uint64_t done, uint64_t total);
void screen_end_progress(struct screen *screen);

#endif
