/* kimi-chat: talks to a model through libkimi. */
#include <errno.h>
#include <fcntl.h>
#include <kimi/kimi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "outcome.h"

static int32_t on_progress(void *screen, uint64_t done, uint64_t total) {
    screen_progress(screen, "loading", done, total);
    return 0;
}

/* Opens the only session. It keeps the engine alive. */
static kimi_status load(struct chat *chat, kimi_error *error) {
    kimi_engine_options options;
    kimi_engine *engine = NULL;
    kimi_engine_options_init(&options);
    options.deployment = chat->options.deployment;
    options.progress = on_progress;
    options.user = &chat->screen;
    kimi_status status = kimi_engine_create(&options, &engine, error);
    screen_end_progress(&chat->screen);
    if (status == KIMI_OK) status = kimi_session_create(engine, NULL, &chat->session, error);
    if (status == KIMI_OK && chat->options.tools != NULL)
        status = kimi_session_set_constraint(chat->session, KIMI_CONSTRAINT_TOOLS, chat->tools.data,
                                             chat->tools.len, error);
    kimi_engine_destroy(engine);
    return status;
}

/* Reads the file of --tools, where there is one. Returns 0 where it cannot be read. */
static int read_tools(struct chat *chat) {
    char bytes[4096];
    size_t n;
    if (chat->options.tools == NULL) return 1;
    FILE *file = fopen(chat->options.tools, "r");
    while (file != NULL && (n = fread(bytes, 1, sizeof bytes, file)) > 0)
        text_add(&chat->tools, bytes, n);
    const int read = file != NULL && !ferror(file);
    if (!read) fprintf(stderr, "kimi-chat: %s: %s\n", chat->options.tools, strerror(errno));
    if (file != NULL) fclose(file);
    text_add_string(&chat->tools, "");
    return read;
}

/* A closed stdin, stdout or stderr must not become some other file that is opened. */
static void hold_standard_files(void) {
    int fd;
    do fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv) {
    struct chat chat = {0};
    kimi_error error;
    kimi_error_init(&error);
    hold_standard_files();
    int outcome = options_parse(&chat.options, argc, argv);
    if (outcome < 0) {
        chat.screen = screen_open();
        if (!read_tools(&chat)) {
            outcome = EXIT_ERROR;
        } else if (load(&chat, &error) != KIMI_OK) {
            fprintf(stderr, "kimi-chat: %s\n", error.message);
            outcome = EXIT_ERROR;
        } else if (chat.options.prompt != NULL || chat.options.tokens != NULL) {
            outcome = one_shot(&chat);
        } else {
            outcome = dialogue(&chat);
        }
    }
    kimi_session_destroy(chat.session);
    text_free(&chat.tools);
    free(chat.options.tokens);
    return outcome;
}
