/* Line editing on a terminal: editor_libedit.c, or editor_none.c in a build without libedit. */
#ifndef KIMI_CHAT_EDITOR_H
#define KIMI_CHAT_EDITOR_H

#include "text.h"

struct editor;

/* Edits on stdin and stderr. The path of earlier lines may be NULL. Returns NULL where there is no
 * editor. */
struct editor *editor_open(const char *history_path);
/* Adds what was typed, without its line feed. Returns 0 after Ctrl-C, or Ctrl-D with nothing
 * typed. */
int editor_read(struct editor *editor, const char *prompt, struct text *line);
void editor_close(struct editor *editor);

#endif
