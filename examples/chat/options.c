#include "options.h"

#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <kimi/kimi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outcome.h"
#include "screen.h"
#include "text.h"

static const char help[] =
    "Usage: kimi-chat --deployment FILE [options]\n"
    "\n"
    "Talks to a Kimi K2.6 model: in a dialogue, whose commands /help lists, or once, with\n"
    "--prompt or --raw-tokens.\n"
    "\n"
    "  --deployment FILE   deployment (JSON or binary) or checkpoint folder to load\n"
    "  --prompt TEXT       print the reply to TEXT and leave\n"
    "  --system TEXT       system message\n"
    "  --tools FILE        the model may call the functions that FILE declares, a JSON array as\n"
    "                      in a chat request. Here are calculate, and search_files in the current\n"
    "                      folder\n"
    "  --instant           answer without reasoning first\n"
    "  --max-tokens N      longest reply in tokens, reasoning included. Default 0: up to the\n"
    "                      context limit\n"
    "  --temperature T     0 takes the likeliest token. Default 1.0, with --instant 0.6\n"
    "  --top-p P           sample from the likeliest tokens that make up P. Default 0.95\n"
    "  --seed S            reply number i of this run, from 0, uses the seed S + i. Default:\n"
    "                      a new seed for each reply\n"
    "  --raw-tokens 1,2,3  these token ids are the prompt, in place of --prompt and --system,\n"
    "                      and the reply is printed as ids, its stop token included\n"
    "  --draft N           tokens drafted per step, 0 to 63, or auto (default)\n"
    "  --stats             a line of JSON about each reply on stderr\n"
    "  --help, --version\n"
    "\n"
    "Only replies go to stdout, and without the reasoning. That is shown on stderr where it is\n"
    "a terminal, dimmed unless NO_COLOR is set, and nowhere else. Ctrl-C cancels the reply; a\n"
    "second one, or one at an empty prompt, leaves.\n"
    "\n"
    "Exit status: 0 the model ended the reply, or the dialogue was left; 1 an error; 2 a\n"
    "mistake on the command line, or a text that is not UTF-8; 3 the reply was cut at\n"
    "--max-tokens or the context limit; 130 the reply was cancelled by Ctrl-C; 141 the reader\n"
    "of stdout went away.\n";

/* The readers below return -1, or the exit status once they have complained. */

static int complain(const char *option, const char *value, const char *expected) {
    fprintf(stderr, "kimi-chat: --%s is '%s', must be %s\n", option, value, expected);
    return EXIT_USAGE;
}

/* A whole number up to max, and where it ends. Returns 0 where there is none. */
static int scan_integer(const char *text, uint64_t max, uint64_t *out, const char **end) {
    char *stop;
    if (*text < '0' || *text > '9') return 0;
    errno = 0;
    *out = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0 && *out <= max;
}

static int read_integer(const char *option, const char *value, uint64_t max, const char *expected,
                        uint64_t *out) {
    const char *end;
    if (scan_integer(value, max, out, &end) && *end == '\0') return -1;
    return complain(option, value, expected);
}

static int read_number(const char *option, const char *value, double max, const char *expected,
                       double *out) {
    char *end;
    *out = strtod(value, &end);
    if (end != value && *end == '\0' && *out >= 0 && *out <= max) return -1;
    return complain(option, value, expected);
}

static int read_text(const char *option, const char *value, const char **out) {
    const size_t valid = utf8_valid(value, strlen(value));
    *out = value;
    if (value[valid] == '\0') return -1;
    fprintf(stderr, "kimi-chat: --%s is not UTF-8 at byte %zu\n", option, valid);
    return EXIT_USAGE;
}

static int read_tokens(const char *list, struct options *options) {
    const char *at = list;
    uint64_t token;
    free(options->tokens);
    options->tokens = allocate(sizeof(int32_t) * strlen(list)); /* an id takes a byte or more */
    options->n_tokens = 0;
    while (scan_integer(at, INT32_MAX, &token, &at)) {
        options->tokens[options->n_tokens++] = (int32_t)token;
        if (*at == '\0') return -1;
        if (*at++ != ',') break;
    }
    return complain("raw-tokens", list, "token ids with commas between them");
}

static int print(const char *text) {
    screen_reply(text, strlen(text));
    return EXIT_STOP;
}

static int print_version(void) {
    char line[64];
    snprintf(line, sizeof line, "kimi-chat %d.%d.%d\n", KIMI_VERSION_MAJOR, KIMI_VERSION_MINOR,
             KIMI_VERSION_PATCH);
    return print(line);
}

static int take(int option, const char *value, struct options *to) {
    switch (option) {
        case 'd':
            to->deployment = value;
            return -1;
        case 'p':
            return read_text("prompt", value, &to->prompt);
        case 's':
            return read_text("system", value, &to->system);
        case 'f':
            to->tools = value;
            return -1;
        case 'i':
            to->thinking = 0;
            return -1;
        case 'm':
            return read_integer("max-tokens", value, UINT32_MAX, "from 0 to 4294967295",
                                &to->max_tokens);
        case 't':
            return read_number("temperature", value, FLT_MAX, "a number, 0 or more",
                               &to->temperature);
        case 'T':
            return read_number("top-p", value, 1, "a number from 0 to 1", &to->top_p);
        case 'S':
            to->has_seed = 1;
            return read_integer("seed", value, UINT64_MAX, "from 0 to 18446744073709551615",
                                &to->seed);
        case 'r':
            return read_tokens(value, to);
        case 'D':
            to->draft_budget = KIMI_AUTO;
            if (strcmp(value, "auto") == 0) return -1;
            return read_integer("draft", value, 63, "from 0 to 63, or auto", &to->draft_budget);
        case 'x':
            to->stats = 1;
            return -1;
        case 'h':
            return print(help);
        case 'v':
            return print_version();
        default:
            return EXIT_USAGE; /* getopt has said why */
    }
}

int options_parse(struct options *options, int argc, char **argv) {
    static const struct option names[] = {{"deployment", required_argument, NULL, 'd'},
                                          {"prompt", required_argument, NULL, 'p'},
                                          {"system", required_argument, NULL, 's'},
                                          {"tools", required_argument, NULL, 'f'},
                                          {"instant", no_argument, NULL, 'i'},
                                          {"max-tokens", required_argument, NULL, 'm'},
                                          {"temperature", required_argument, NULL, 't'},
                                          {"top-p", required_argument, NULL, 'T'},
                                          {"seed", required_argument, NULL, 'S'},
                                          {"raw-tokens", required_argument, NULL, 'r'},
                                          {"draft", required_argument, NULL, 'D'},
                                          {"stats", no_argument, NULL, 'x'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    static char program[] = "kimi-chat"; /* what getopt's messages begin with */
    int option, status = -1;
    *options = (struct options){
        .thinking = 1, .temperature = -1, .top_p = 0.95, .draft_budget = KIMI_AUTO};
    if (argc > 0) argv[0] = program;
    while (status < 0 && (option = getopt_long(argc, argv, "", names, NULL)) != -1)
        status = take(option, optarg, options);
    if (status >= 0) return status;
    if (optind < argc) {
        fprintf(stderr, "kimi-chat: '%s' is not an option; a prompt goes behind --prompt\n",
                argv[optind]);
        return EXIT_USAGE;
    }
    if (options->deployment == NULL) {
        fputs("kimi-chat: --deployment is missing; --help explains\n", stderr);
        return EXIT_USAGE;
    }
    return -1;
}
