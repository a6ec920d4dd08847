/* The conversation so far, as kimi_session_append_chat takes it: each request holds all of it, and
 * the library finds out what the session has already processed. */
#ifndef KIMI_CHAT_CONVERSATION_H
#define KIMI_CHAT_CONVERSATION_H

#include "calls.h"
#include "text.h"

struct conversation {
    struct text messages; /* JSON objects with commas between them */
    size_t start;         /* bytes of the system message */
    size_t user;          /* bytes before the last user message */
    size_t reply;         /* bytes before the reply to it */
    const char *tools;    /* JSON array of their declarations; NULL: none */
};

/* Text is UTF-8. system and tools may be NULL; tools must outlive the conversation. */
void conversation_begin(struct conversation *c, const char *system, const char *tools);
void conversation_reset(struct conversation *c);
void conversation_add_user(struct conversation *c, const char *text, size_t n);
void conversation_add_reply(struct conversation *c, const char *text, size_t n);
/* A reply that calls tools, and the result of one of its calls. */
void conversation_add_calls(struct conversation *c, const struct text *reasoning,
                            const struct text *content, const struct calls *calls);
void conversation_add_result(struct conversation *c, const struct call *call,
                             const struct text *result);
/* Take back the last user message and what follows it, or only the reply to it. */
void conversation_drop_user(struct conversation *c);
void conversation_drop_reply(struct conversation *c);
int conversation_has_user(const struct conversation *c);
/* The request for the next reply. The caller frees it. */
struct text conversation_request(const struct conversation *c, int thinking);
void conversation_free(struct conversation *c);

#endif
