#include "answer.h"

#include "tools.h"

static void note_call(const struct screen *screen, const struct call *call,
                      const struct text *result) {
    struct text note = {0};
    text_add_string(&note, "[");
    text_add_string(&note, call->name.data);
    text_add_string(&note, " ");
    text_add_string(&note, call->arguments.data);
    text_add_string(&note, ": ");
    text_add_string(&note, result->data);
    text_add_string(&note, "]");
    screen_note(screen, note.data);
    text_free(&note);
}

static void run_calls(struct chat *chat, struct conversation *conversation,
                      const struct reply *reply) {
    conversation_add_calls(conversation, &reply->reasoning, &reply->answer, &reply->calls);
    for (size_t i = 0; i < reply->calls.n; i++) {
        const struct call *call = &reply->calls.list[i];
        struct text result = tools_run(call);
        note_call(&chat->screen, call, &result);
        conversation_add_result(conversation, call, &result);
        text_free(&result);
    }
}

struct reply answer(struct chat *chat, struct conversation *conversation) {
    for (;;) {
        struct text request = conversation_request(conversation, chat->options.thinking);
        struct reply reply = reply_run(chat, &request);
        text_free(&request);
        if (reply.finish_reason != KIMI_FINISH_TOOL_CALLS || conversation->tools == NULL)
            return reply;
        run_calls(chat, conversation, &reply);
        reply_free(&reply);
    }
}
