#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outcome.h"

static void *or_exit(void *memory) {
    if (memory != NULL) return memory;
    fputs("kimi-chat: out of memory\n", stderr);
    exit(EXIT_ERROR);
}

void *allocate(size_t bytes) {
    return or_exit(malloc(bytes > 0 ? bytes : 1));
}

void *reallocate(void *memory, size_t bytes) {
    return or_exit(realloc(memory, bytes));
}

void text_add(struct text *text, const char *bytes, size_t n) {
    const size_t needed = text->len + n + 1;
    if (needed > text->cap) {
        text->cap = needed + needed / 2;
        text->data = reallocate(text->data, text->cap);
    }
    if (n > 0) memcpy(text->data + text->len, bytes, n);
    text_cut(text, text->len + n);
}

void text_add_string(struct text *text, const char *string) {
    text_add(text, string, strlen(string));
}

void text_add_json(struct text *text, const char *utf8, size_t n) {
    char escape[8];
    text_add(text, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const char *c = &utf8[i];
        if ((unsigned char)*c < 0x20 || *c == '"' || *c == '\\') {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*c);
            text_add(text, escape, 6);
        } else {
            text_add(text, c, 1);
        }
    }
    text_add(text, "\"", 1);
}

void text_cut(struct text *text, size_t len) {
    text->len = len;
    if (text->data != NULL) text->data[len] = '\0';
}

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

/* The length of the character that starts at s, as RFC 3629 defines UTF-8; 0 where none does. */
static size_t utf8_character(const unsigned char *s, size_t n) {
    unsigned char low = 0x80, high = 0xBF; /* of the second byte */
    size_t len;
    if (s[0] < 0x80) return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        len = 2;
    } else if (s[0] >= 0xE0 && s[0] <= 0xEF) {
        len = 3;
        if (s[0] == 0xE0) low = 0xA0;  /* shorter forms exist */
        if (s[0] == 0xED) high = 0x9F; /* surrogates */
    } else if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        len = 4;
        if (s[0] == 0xF0) low = 0x90;
        if (s[0] == 0xF4) high = 0x8F; /* above U+10FFFF */
    } else {
        return 0;
    }
    if (n < len || s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return len;
}

size_t utf8_valid(const char *bytes, size_t n) {
    size_t at = 0, len;
    while (at < n && (len = utf8_character((const unsigned char *)bytes + at, n - at)) > 0)
        at += len;
    return at;
}
