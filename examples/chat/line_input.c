#include "line_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "history.h"

struct line_input line_input_open(void) {
    struct line_input in = {0};
    in.is_terminal = isatty(STDIN_FILENO);
    if (!in.is_terminal) return in;
    in.history = history_path();
    if (isatty(STDERR_FILENO)) in.editor = editor_open(in.history);
    return in;
}

static int read_plain(struct line_input *in, const char *prompt, struct text *line) {
    if (in->is_terminal) fputs(prompt, stderr);
    ssize_t n = getline(&in->buffer, &in->cap, stdin);
    if (n < 0) {
        if (in->is_terminal) fputc('\n', stderr);
        return 0;
    }
    if (n > 0 && in->buffer[n - 1] == '\n') n--;
    text_add(line, in->buffer, (size_t)n);
    return 1;
}

static int read_one(struct line_input *in, const char *prompt, struct text *line) {
    const size_t begin = line->len;
    const int got =
        in->editor != NULL ? editor_read(in->editor, prompt, line) : read_plain(in, prompt, line);
    if (got && line->len > begin && in->history != NULL)
        history_append(in->history, line->data + begin);
    return got;
}

int line_input_read(struct line_input *in, struct text *line) {
    for (;;) {
        const int got = read_one(in, line->len > 0 ? ". " : "> ", line);
        if (!got && line->len > 0 && in->editor != NULL) {
            text_cut(line, 0); /* dropped: a fresh start */
        } else if (got && line->len > 0 && line->data[line->len - 1] == '\\') {
            line->data[line->len - 1] = '\n';
        } else {
            return got || line->len > 0;
        }
    }
}

void line_input_close(struct line_input *in) {
    editor_close(in->editor);
    free(in->history);
    free(in->buffer);
}
