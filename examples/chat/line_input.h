/* The lines that the user types, or that stdin holds. */
#ifndef KIMI_CHAT_LINE_INPUT_H
#define KIMI_CHAT_LINE_INPUT_H

#include "editor.h"

struct line_input {
    int is_terminal;
    char *history;         /* path of its file; NULL: none is kept */
    struct editor *editor; /* NULL: plain reading */
    char *buffer;          /* getline's */
    size_t cap;
};

struct line_input line_input_open(void);
/* Reads a line, without its line feed, into an empty text. A backslash at its end joins the next
 * one to it. Returns 0 at the end of the input, and after Ctrl-C or Ctrl-D with nothing typed. */
int line_input_read(struct line_input *input, struct text *line);
void line_input_close(struct line_input *input);

#endif
