#include "reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "outcome.h"
#include "stats.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t next_seed(const struct chat *chat) {
    uint32_t seed = 0; /* short enough to type again */
    if (chat->options.has_seed) return chat->options.seed + chat->n_replies;
    if (getentropy(&seed, sizeof seed) != 0) seed = (uint32_t)time(NULL);
    return seed;
}

static kimi_status set_options(const struct chat *chat, struct reply *reply) {
    const struct options *from = &chat->options;
    const double mode_temperature = from->thinking ? 1.0 : 0.6;
    kimi_session_options to;
    kimi_session_options_init(&to);
    to.seed = reply->seed = next_seed(chat);
    to.max_tokens = (uint32_t)from->max_tokens;
    to.temperature = (float)(from->temperature >= 0 ? from->temperature : mode_temperature);
    to.top_p = (float)from->top_p;
    to.draft_budget = (uint32_t)from->draft_budget;
    return kimi_session_set_options(chat->session, &to, &reply->error);
}

static kimi_status append(const struct chat *chat, const struct text *request, kimi_error *error) {
    const struct options *o = &chat->options;
    if (request == NULL) return kimi_session_append(chat->session, o->tokens, o->n_tokens, error);
    return kimi_session_append_chat(chat->session, request->data, request->len, error);
}

static void show_answer(struct reply *reply, const struct screen *screen, const kimi_event *event) {
    if (reply->answer.len == 0 && reply->reasoning.len > 0) screen_reasoning(screen, "\n\n", 2);
    text_add(&reply->answer, event->text, event->text_len);
    screen_reply(event->text, event->text_len);
}

/* What is known of the reply after a step. */
static void show_events(struct chat *chat, struct reply *reply) {
    kimi_event event;
    kimi_event_init(&event);
    while (kimi_session_next_event(chat->session, KIMI_NO_STEP, &event, NULL) == KIMI_OK &&
           event.kind != KIMI_EVENT_NONE) {
        if (event.kind == KIMI_EVENT_REASONING) {
            text_add(&reply->reasoning, event.text, event.text_len);
            screen_reasoning(&chat->screen, event.text, event.text_len);
        }
        if (event.kind == KIMI_EVENT_CONTENT) show_answer(reply, &chat->screen, &event);
        if (event.kind == KIMI_EVENT_CALL) calls_add(&reply->calls, &event);
    }
}

static void show_tokens(const struct reply *reply, const kimi_step *step) {
    char id[16];
    for (size_t i = 0; i < step->n_tokens; i++) {
        const char *comma = reply->generated_tokens + i > 0 ? "," : "";
        screen_reply(id, (size_t)snprintf(id, sizeof id, "%s%" PRId32, comma, step->tokens[i]));
    }
}

static void show_step(struct chat *chat, struct reply *reply, const kimi_step *step) {
    screen_end_progress(&chat->screen);
    if (step->phase == KIMI_PHASE_PREFILL)
        screen_progress(&chat->screen, "reading the prompt", step->prompt_done, step->prompt_total);
    else if (chat->options.tokens != NULL)
        show_tokens(reply, step);
    else
        show_events(chat, reply);
}

/* begin is when the reply was asked for. */
static void count_step(struct reply *reply, const kimi_step *step, double begin) {
    const double elapsed = now() - begin;
    reply->finish_reason = step->finish_reason;
    reply->prompt_tokens = step->prompt_total;
    if (reply->generated_tokens == 0) {
        reply->prompt_s = elapsed;
    } else {
        reply->decode_s = elapsed - reply->prompt_s;
        reply->steps++;
    }
    reply->generated_tokens += step->n_tokens;
    reply->drafted += step->draft_nodes;
    reply->accepted += step->draft_accepted;
}

/* Both kinds of output end with a line feed, unless there is none. */
static void end_lines(const struct chat *chat, const struct reply *reply) {
    const struct text *answer = &reply->answer;
    if (answer->len == 0 && reply->reasoning.len > 0) screen_reasoning(&chat->screen, "\n", 1);
    if (chat->options.tokens != NULL ? reply->generated_tokens > 0
                                     : answer->len > 0 && answer->data[answer->len - 1] != '\n')
        screen_reply("\n", 1);
    if (reply->finish_reason == KIMI_FINISH_CANCELLED) screen_note(&chat->screen, "[cancelled]");
    if (reply->finish_reason == KIMI_FINISH_LENGTH)
        screen_note(&chat->screen, "[cut: no more tokens are allowed]");
}

static void run(struct chat *chat, const struct text *request, struct reply *reply) {
    kimi_step step;
    const double begin = now();
    kimi_step_init(&step);
    if (set_options(chat, reply) != KIMI_OK || append(chat, request, &reply->error) != KIMI_OK)
        return;
    chat->n_replies++;
    interrupt_arm(chat->session);
    while (step.phase != KIMI_PHASE_FINISHED &&
           kimi_decode_step(chat->session, &step, &reply->error) == KIMI_OK) {
        show_step(chat, reply, &step);
        count_step(reply, &step, begin);
    }
    interrupt_disarm();
    if (reply->error.status != KIMI_OK) reply->finish_reason = KIMI_FINISH_ERROR;
    screen_end_progress(&chat->screen);
    end_lines(chat, reply);
}

struct reply reply_run(struct chat *chat, const struct text *request) {
    struct reply reply = {0};
    kimi_error_init(&reply.error);
    reply.prompt_was_new = chat->n_replies == 0;
    reply.finish_reason = KIMI_FINISH_ERROR;
    run(chat, request, &reply);
    if (reply.finish_reason == KIMI_FINISH_ERROR)
        fprintf(stderr, "kimi-chat: %s\n", reply.error.message);
    if (chat->options.stats) stats_print_json(&reply);
    return reply;
}

void reply_free(struct reply *reply) {
    text_free(&reply->reasoning);
    text_free(&reply->answer);
    calls_free(&reply->calls);
}

int reply_outcome(const struct reply *reply) {
    switch (reply->finish_reason) {
        case KIMI_FINISH_LENGTH:
            return EXIT_LENGTH;
        case KIMI_FINISH_CANCELLED:
            return EXIT_CANCELLED;
        case KIMI_FINISH_ERROR:
            return EXIT_ERROR;
        default:
            return EXIT_STOP;
    }
}
