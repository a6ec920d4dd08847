/* The history file: one line of input a line, at $XDG_STATE_HOME/kimi-chat/history. */
#ifndef KIMI_CHAT_HISTORY_H
#define KIMI_CHAT_HISTORY_H

/* The file's path, its folder made; NULL where the environment names no place. The caller frees it.
 */
char *history_path(void);
void history_append(const char *path, const char *line);

#endif
