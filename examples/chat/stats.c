#include "stats.h"

#include <inttypes.h>
#include <stdio.h>

/* The name of the reply's finish_reason. */
static const char *ending(const struct reply *r) {
    static const char *const names[] = {"none",       "stop",        "length",
                                        "cancelled",  "deadline",    "error",
                                        "tool_calls", "stop_string", "constraint"};
    return r->finish_reason < sizeof names / sizeof names[0] ? names[r->finish_reason] : "other";
}

/* Negative where nothing was measured. */
static double per_second(uint64_t n, double seconds) {
    return n > 0 && seconds > 0 ? (double)n / seconds : -1;
}

/* A prompt that the session knew in part was not all read. */
static double prefill_rate(const struct reply *r) {
    return r->prompt_was_new ? per_second(r->prompt_tokens, r->prompt_s) : -1;
}

/* The first token belongs to the prompt's time. */
static double decode_rate(const struct reply *r) {
    return r->generated_tokens > 1 ? per_second(r->generated_tokens - 1, r->decode_s) : -1;
}

static void print_rate(const char *name, double rate) {
    if (rate < 0)
        fprintf(stderr, "\"%s\": null, ", name);
    else
        fprintf(stderr, "\"%s\": %.2f, ", name, rate);
}

void stats_print_json(const struct reply *r) {
    fprintf(stderr, "{\"prompt_tokens\": %" PRIu64 ", \"generated_tokens\": %" PRIu64 ", ",
            r->prompt_tokens, r->generated_tokens);
    print_rate("prefill_tokens_per_s", prefill_rate(r));
    print_rate("decode_tokens_per_s", decode_rate(r));
    fprintf(stderr,
            "\"steps\": %" PRIu64 ", \"drafted\": %" PRIu64 ", \"accepted\": %" PRIu64
            ", \"finish_reason\": \"%s\", \"seed\": %" PRIu64 ", \"first_token_ms\": %.1f}\n",
            r->steps, r->drafted, r->accepted, ending(r), r->seed, r->prompt_s * 1e3);
}

void stats_print(const struct reply *r) {
    fprintf(stderr, "prompt   %" PRIu64 " tokens, first reply token after %.0f ms\n",
            r->prompt_tokens, r->prompt_s * 1e3);
    fprintf(stderr, "reply    %" PRIu64 " tokens", r->generated_tokens);
    if (decode_rate(r) >= 0) fprintf(stderr, ", %.1f tokens/s", decode_rate(r));
    fprintf(stderr, ", ended by %s\n", ending(r));
    fprintf(stderr, "drafts   %" PRIu64 " of %" PRIu64 " tokens accepted in %" PRIu64 " steps\n",
            r->accepted, r->drafted, r->steps);
    fprintf(stderr, "seed     %" PRIu64 "\n", r->seed);
}
