#include "conversation.h"

#include <string.h>

static void add(struct conversation *c, const char *role, const char *text, size_t n) {
    if (c->messages.len > 0) text_add_string(&c->messages, ",");
    text_add_string(&c->messages, "{\"role\":\"");
    text_add_string(&c->messages, role);
    text_add_string(&c->messages, "\",\"content\":");
    text_add_json(&c->messages, text, n);
    text_add_string(&c->messages, "}");
}

void conversation_begin(struct conversation *c, const char *system) {
    *c = (struct conversation){0};
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
    text_add_string(&json, "],\"thinking\":");
    text_add_string(&json, thinking ? "true}" : "false}");
    return json;
}

void conversation_free(struct conversation *c) {
    text_free(&c->messages);
}
