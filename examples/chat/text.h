/* Growing byte strings and the two encodings that the chat needs: UTF-8 and JSON. */
#ifndef KIMI_CHAT_TEXT_H
#define KIMI_CHAT_TEXT_H

#include <stddef.h>

/* Starts as {0}. data is NUL-terminated once something was added. */
struct text {
    char *data;
    size_t len, cap;
};

/* Running out of memory in these ends the program with a message. */
void *allocate(size_t bytes);
void *reallocate(void *memory, size_t bytes);
void text_add(struct text *text, const char *bytes, size_t n);
void text_add_string(struct text *text, const char *string);
/* Adds n bytes of UTF-8 as a JSON string, quotes included. */
void text_add_json(struct text *text, const char *utf8, size_t n);
void text_cut(struct text *text, size_t len);
void text_free(struct text *text);

/* How many of the n bytes stand before the first that is not UTF-8: n where all is well. */
size_t utf8_valid(const char *bytes, size_t n);

#endif
