/* The dialogue: lines become messages or commands until the user leaves. */
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "chat.h"
#include "conversation.h"
#include "line_input.h"
#include "outcome.h"
#include "stats.h"

struct dialogue {
    struct chat *chat;
    struct conversation conversation;
    struct reply last; /* for /stats; its answer is in the conversation */
    int left;
};

static void note(const struct dialogue *d, const char *text) {
    screen_note(&d->chat->screen, text);
}

/* Replies to the last user message. A message that got no reply is forgotten. */
static void reply_to_user(struct dialogue *d) {
    struct reply reply = answer(d->chat, &d->conversation);
    if (reply.finish_reason == KIMI_FINISH_ERROR)
        conversation_drop_user(&d->conversation);
    else
        conversation_add_reply(&d->conversation, reply.answer.data, reply.answer.len);
    reply_free(&reply);
    d->last = reply;
}

static void run_reset(struct dialogue *d) {
    conversation_reset(&d->conversation);
    note(d, "A new conversation.");
}

static void run_retry(struct dialogue *d) {
    if (!conversation_has_user(&d->conversation)) {
        fputs("kimi-chat: there is no reply to retry\n", stderr);
        return;
    }
    conversation_drop_reply(&d->conversation);
    reply_to_user(d);
}

static void run_think(struct dialogue *d) {
    d->chat->options.thinking = 1;
    note(d, "Replies begin with reasoning.");
}

static void run_instant(struct dialogue *d) {
    d->chat->options.thinking = 0;
    note(d, "Replies come without reasoning.");
}

static void run_stats(struct dialogue *d) {
    if (d->chat->n_replies == 0)
        fputs("kimi-chat: there is no reply yet\n", stderr);
    else
        stats_print(&d->last);
}

static void run_exit(struct dialogue *d) {
    d->left = 1;
}

static const struct command {
    const char *name, *help;
    void (*run)(struct dialogue *);
} commands[] = {
    {"/help", "this list", NULL},
    {"/reset", "forget the conversation", run_reset},
    {"/retry", "reply again to the last message", run_retry},
    {"/think", "reason before replying", run_think},
    {"/instant", "reply at once", run_instant},
    {"/stats", "what the last reply cost, and its seed", run_stats},
    {"/exit", "leave; so does Ctrl-D, or Ctrl-C at an empty prompt", run_exit},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(stderr, "%-9s %s\n", commands[i].name, commands[i].help);
    fputs("A backslash at the end of a line continues the message on the next one.\n", stderr);
}

static void run_command(struct dialogue *d, const char *line) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(line, commands[i].name) != 0) continue;
        if (commands[i].run != NULL)
            commands[i].run(d);
        else
            print_help();
        return;
    }
    fprintf(stderr,
            "kimi-chat: %s is not a command; /help lists them. A space in front sends it as a "
            "message.\n",
            line);
}

static void take_line(struct dialogue *d, const struct text *line) {
    const size_t valid = utf8_valid(line->data, line->len);
    if (strspn(line->data, " \t\n") == line->len) return;
    if (valid < line->len) {
        fprintf(stderr, "kimi-chat: the message is not UTF-8 at byte %zu; it was not sent\n",
                valid);
    } else if (line->data[0] == '/') {
        run_command(d, line->data);
    } else {
        conversation_add_user(&d->conversation, line->data, line->len);
        reply_to_user(d);
    }
}

int dialogue(struct chat *chat) {
    struct dialogue d = {.chat = chat};
    struct line_input input = line_input_open();
    struct text line = {0};
    conversation_begin(&d.conversation, chat->options.system, chat->tools.data);
    note(&d, "/help lists the commands.");
    while (!d.left && line_input_read(&input, &line)) {
        take_line(&d, &line);
        text_cut(&line, 0);
    }
    text_free(&line);
    line_input_close(&input);
    conversation_free(&d.conversation);
    return EXIT_STOP;
}
