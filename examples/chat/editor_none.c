#include "editor.h"

struct editor *editor_open(const char *history_path) {
    (void)history_path;
    return NULL;
}

int editor_read(struct editor *editor, const char *prompt, struct text *line) {
    (void)editor, (void)prompt, (void)line;
    return 0;
}

void editor_close(struct editor *editor) {
    (void)editor;
}
