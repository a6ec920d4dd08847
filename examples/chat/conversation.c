#include "conversation.h"

#include <string.h>

/* A member of an object that is not its first. */
static void add_member(struct text *json, const char *name, const char *text, size_t n) {
    text_add_string(json, ",\"");
    text_add_string(json, name);
    text_add_string(json, "\":");
    text_add_json(json, text, n);
}

static void begin_message(struct conversation *c, const char *role, const char *text, size_t n) {
    text_add_string(&c->messages, c->messages.len > 0 ? ",{\"role\":\"" : "{\"role\":\"");
    text_add_string(&c->messages, role);
    text_add_string(&c->messages, "\"");
    add_member(&c->messages, "content", text, n);
}

static void add(struct conversation *c, const char *role, const char *text, size_t n) {
    begin_message(c, role, text, n);
    text_add_string(&c->messages, "}");
}

void conversation_begin(struct conversation *c, const char *system, const char *tools) {
    *c = (struct conversation){.tools = tools};
    if (system != NULL) add(c, "system", system, strlen(system));
    c->start = c->messages.len;
    conversation_reset(c);
}

void conversation_reset(struct conversation *c) {
    text_cut(&c->messages, c->start);
    c->user = c->reply = c->start;
}

void conversation_add_user(struct conversation *c, const char *text, size_t n) {
    c->user = c->messages.len;
    add(c, "user", text, n);
    c->reply = c->messages.len;
}

void conversation_add_reply(struct conversation *c, const char *text, size_t n) {
    add(c, "assistant", text, n);
}

void conversation_add_calls(struct conversation *c, const struct text *reasoning,
                            const struct text *content, const struct calls *calls) {
    struct text *json = &c->messages;
    begin_message(c, "assistant", content->data, content->len);
    add_member(json, "reasoning_content", reasoning->data, reasoning->len);
    text_add_string(json, ",\"tool_calls\":[");
    for (size_t i = 0; i < calls->n; i++) {
        const struct call *call = &calls->list[i];
        text_add_string(json, i > 0 ? ",{\"type\":\"function\"" : "{\"type\":\"function\"");
        add_member(json, "id", call->id.data, call->id.len);
        text_add_string(json, ",\"function\":{\"name\":");
        text_add_json(json, call->name.data, call->name.len);
        add_member(json, "arguments", call->arguments.data, call->arguments.len);
        text_add_string(json, "}}");
    }
    text_add_string(json, "]}");
}

void conversation_add_result(struct conversation *c, const struct call *call,
                             const struct text *result) {
    begin_message(c, "tool", result->data, result->len);
    add_member(&c->messages, "tool_call_id", call->id.data, call->id.len);
    text_add_string(&c->messages, "}");
}

void conversation_drop_user(struct conversation *c) {
    text_cut(&c->messages, c->user);
    c->reply = c->user;
}

void conversation_drop_reply(struct conversation *c) {
    text_cut(&c->messages, c->reply);
}

int conversation_has_user(const struct conversation *c) {
    return c->reply > c->user;
}

struct text conversation_request(const struct conversation *c, int thinking) {
    struct text json = {0};
    text_add_string(&json, "{\"messages\":[");
    text_add(&json, c->messages.data, c->messages.len);
    text_add_string(&json, "],");
    if (c->tools != NULL) {
        text_add_string(&json, "\"tools\":");
        text_add_string(&json, c->tools);
        text_add_string(&json, ",");
    }
    text_add_string(&json, "\"thinking\":");
    text_add_string(&json, thinking ? "true}" : "false}");
    return json;
}

void conversation_free(struct conversation *c) {
    text_free(&c->messages);
}
