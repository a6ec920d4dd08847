#include "screen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outcome.h"

struct screen screen_open(void) {
    struct screen screen = {0};
    const char *no_color = getenv("NO_COLOR");
    screen.stderr_is_terminal = isatty(STDERR_FILENO);
    screen.colour = screen.stderr_is_terminal && (no_color == NULL || *no_color == '\0');
    return screen;
}

void screen_reply(const char *text, size_t n) {
    if (fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0) return;
    if (errno == EPIPE) _exit(EXIT_PIPE);
    fprintf(stderr, "kimi-chat: stdout: %s\n", strerror(errno));
    _exit(EXIT_ERROR);
}

void screen_reasoning(const struct screen *screen, const char *text, size_t n) {
    if (!screen->stderr_is_terminal || n == 0) return;
    /* Each piece ends its own dimming, so that the terminal is well wherever the program ends. */
    if (screen->colour) fputs("\033[2m", stderr);
    fwrite(text, 1, n, stderr);
    if (screen->colour) fputs("\033[0m", stderr);
}

void screen_note(const struct screen *screen, const char *text) {
    if (screen->stderr_is_terminal) fprintf(stderr, "%s\n", text);
}

void screen_progress(struct screen *screen, const char *what, uint64_t done, uint64_t total) {
    if (!screen->stderr_is_terminal || total == 0) return;
    screen_end_progress(screen);
    screen->progress = fprintf(stderr, "%s: %.0f %%", what, 100.0 * (double)done / (double)total);
}

void screen_end_progress(struct screen *screen) {
    if (screen->progress > 0) fprintf(stderr, "\r%*s\r", screen->progress, "");
    screen->progress = 0;
}
