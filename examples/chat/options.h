/* The command line. */
#ifndef KIMI_CHAT_OPTIONS_H
#define KIMI_CHAT_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct options {
    const char *deployment;
    const char *prompt; /* NULL: a dialogue */
    const char *system; /* NULL: none */
    const char *tools;  /* path; NULL: none */
    int32_t *tokens;    /* of --raw-tokens; NULL: the prompt is text */
    size_t n_tokens;
    int thinking;
    uint64_t max_tokens; /* at most UINT32_MAX */
    double temperature;  /* negative: the mode's own */
    double top_p;
    int has_seed;
    uint64_t seed;
    uint64_t draft_budget; /* 0..63 or KIMI_AUTO */
    int stats;
};

/* Reads the command line. Returns -1 to go on, else the exit status: after --help, --version or a
 * mistake, which is then described on stderr. */
int options_parse(struct options *options, int argc, char **argv);

#endif
