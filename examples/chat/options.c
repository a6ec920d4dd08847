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
    "Talks to a Kimi K2.6 model. Without --prompt or --raw-tokens it holds a dialogue; /help "
    "lists\n"
    "its commands.\n"
    "\n"
    "  --deployment FILE    deployment (JSON or binary) or checkpoint folder to load\n"
    "  --prompt TEXT        print the reply to TEXT, and nothing else, on stdout; then leave\n"
    "  --system TEXT        system message\n"
    "  --instant            answer without reasoning first\n"
    "  --max-tokens N       longest reply in tokens, reasoning included; 0: up to the context\n"
    "                       limit (default)\n"
    "  --temperature T      0 takes the likeliest token. Default 1.0, with --instant 0.6\n"
    "  --top-p P            sample from the likeliest tokens that make up P. Default 0.95\n"
    "  --seed S             reply number i of this run (from 0) uses the seed S + i. Default: a\n"
    "                       new seed for each reply\n"
    "  --raw-tokens 1,2,3   the prompt is these token ids, in place of --prompt and --system; the\n"
    "                       reply's ids are printed on one line, stop token included\n"
    "  --draft N            tokens drafted per step, 0 to 63, or auto (default)\n"
    "  --stats              a line of JSON about each reply on stderr\n"
    "  --help, --version\n"
    "\n"
    "Only replies go to stdout, without the reasoning. The reasoning is shown on stderr where "
    "that\n"
    "is a terminal, dimmed unless NO_COLOR is set, and nowhere else. Ctrl-C cancels the reply; a\n"
    "second one, or one at an empty prompt, leaves.\n"
    "\n"
    "Exit status: 0 the model ended the reply, or the dialogue was left; 1 an error; 2 a mistake "
    "on\n"
    "the command line, or a text that is not UTF-8; 3 the reply was cut at --max-tokens or the\n"
    "context limit; 130 Ctrl-C; 141 the reader of stdout went away.\n";

static int complain(const char *option, const char *value, const char *expected) {
    fprintf(stderr, "kimi-chat: --%s is '%s', must be %s\n", option, value, expected);
    return EXIT_USAGE;
}

/* A whole number from 0 to max, and where it ends. Returns 0 where there is none. */
static int read_integer(const char *text, uint64_t max, uint64_t *out, const char **end) {
    char *stop;
    if (*text < '0' || *text > '9') return 0;
    errno = 0;
    *out = strtoull(text, &stop, 10);
    *end = stop;
    return errno == 0 && *out <= max;
}

static int is_integer(const char *text, uint64_t max, uint64_t *out) {
    const char *end;
    return read_integer(text, max, out, &end) && *end == '\0';
}

static int is_number(const char *text, double max, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= 0 && *out <= max;
}

static int is_draft_budget(const char *text, uint32_t *out) {
    uint64_t budget = KIMI_AUTO;
    if (strcmp(text, "auto") != 0 && !is_integer(text, 63, &budget)) return 0;
    *out = (uint32_t)budget;
    return 1;
}

static int is_utf8(const char *text) {
    return text[utf8_valid(text, strlen(text))] == '\0';
}

static int read_tokens(struct options *options, const char *list) {
    const char *at = list;
    uint64_t token;
    free(options->tokens);
    options->tokens = allocate(sizeof(int32_t) * strlen(list)); /* every id takes a byte or more */
    options->n_tokens = 0;
    while (read_integer(at, INT32_MAX, &token, &at)) {
        options->tokens[options->n_tokens++] = (int32_t)token;
        if (*at == '\0') return 1;
        if (*at++ != ',') return 0;
    }
    return 0;
}

static int complain_utf8(const char *option, const char *value) {
    fprintf(stderr, "kimi-chat: --%s is not UTF-8 at byte %zu\n", option,
            utf8_valid(value, strlen(value)));
    return EXIT_USAGE;
}

enum {
    DEPLOYMENT = 1,
    PROMPT,
    SYSTEM,
    INSTANT,
    MAX_TOKENS,
    TEMPERATURE,
    TOP_P,
    SEED,
    RAW_TOKENS,
    DRAFT,
    STATS,
    HELP,
    VERSION,
    N_OPTIONS = VERSION
};

/* names[i] is option i + 1. */
static const struct option names[N_OPTIONS + 1] = {
    {"deployment", required_argument, NULL, DEPLOYMENT},
    {"prompt", required_argument, NULL, PROMPT},
    {"system", required_argument, NULL, SYSTEM},
    {"instant", no_argument, NULL, INSTANT},
    {"max-tokens", required_argument, NULL, MAX_TOKENS},
    {"temperature", required_argument, NULL, TEMPERATURE},
    {"top-p", required_argument, NULL, TOP_P},
    {"seed", required_argument, NULL, SEED},
    {"raw-tokens", required_argument, NULL, RAW_TOKENS},
    {"draft", required_argument, NULL, DRAFT},
    {"stats", no_argument, NULL, STATS},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0}};

static int print_version(void) {
    char line[64];
    screen_reply(line,
                 (size_t)snprintf(line, sizeof line, "kimi-chat %d.%d.%d\n", KIMI_VERSION_MAJOR,
                                  KIMI_VERSION_MINOR, KIMI_VERSION_PATCH));
    return EXIT_STOP;
}

static int print_help(void) {
    screen_reply(help, sizeof help - 1);
    return EXIT_STOP;
}

/* Takes one option. Returns as options_parse. */
static int take(struct options *options, int option, const char *value) {
    uint64_t integer;
    if (option == '?') return EXIT_USAGE; /* getopt has said why */
    const char *name = names[option - 1].name;
    switch (option) {
        case DEPLOYMENT:
            options->deployment = value;
            break;
        case PROMPT:
            if (!is_utf8(value)) return complain_utf8(name, value);
            options->prompt = value;
            break;
        case SYSTEM:
            if (!is_utf8(value)) return complain_utf8(name, value);
            options->system = value;
            break;
        case INSTANT:
            options->thinking = 0;
            break;
        case MAX_TOKENS:
            if (!is_integer(value, UINT32_MAX, &integer))
                return complain(name, value, "from 0 to 4294967295");
            options->max_tokens = (uint32_t)integer;
            break;
        case TEMPERATURE:
            if (!is_number(value, FLT_MAX, &options->temperature))
                return complain(name, value, "a number, 0 or more");
            break;
        case TOP_P:
            if (!is_number(value, 1, &options->top_p))
                return complain(name, value, "a number from 0 to 1");
            break;
        case SEED:
            if (!is_integer(value, UINT64_MAX, &options->seed))
                return complain(name, value, "from 0 to 18446744073709551615");
            options->has_seed = 1;
            break;
        case RAW_TOKENS:
            if (!read_tokens(options, value))
                return complain(name, value, "token ids with commas between them");
            break;
        case DRAFT:
            if (!is_draft_budget(value, &options->draft_budget))
                return complain(name, value, "from 0 to 63, or auto");
            break;
        case STATS:
            options->stats = 1;
            break;
        case HELP:
            return print_help();
        case VERSION:
            return print_version();
    }
    return -1;
}

int options_parse(struct options *options, int argc, char **argv) {
    static char program[] = "kimi-chat"; /* what getopt's messages begin with */
    int option, status = -1;
    *options = (struct options){
        .thinking = 1, .temperature = -1, .top_p = 0.95, .draft_budget = KIMI_AUTO};
    if (argc > 0) argv[0] = program;
    while (status < 0 && (option = getopt_long(argc, argv, "", names, NULL)) != -1)
        status = take(options, option, optarg);
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
