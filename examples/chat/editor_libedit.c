#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "editor.h"

struct editor {
    EditLine *line;
    History *history;
    const char *prompt;
};

static char *prompt_of(EditLine *line) {
    struct editor *editor = NULL;
    el_get(line, EL_CLIENTDATA, &editor);
    return (char *)editor->prompt;
}

/* libedit decodes keys by the locale; what the user types becomes UTF-8 whatever the locale. */
static void use_utf8(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

static void load_history(History *to, const char *path) {
    HistEvent event;
    char *line = NULL;
    size_t cap = 0;
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    history(to, &event, H_SETSIZE, 1000);
    history(to, &event, H_SETUNIQUE, 1);
    if (file == NULL) return;
    while (getline(&line, &cap, file) > 0) history(to, &event, H_ENTER, line);
    free(line);
    fclose(file);
}

static void configure(struct editor *editor) {
    el_set(editor->line, EL_CLIENTDATA, editor);
    el_set(editor->line, EL_PROMPT, prompt_of);
    el_set(editor->line, EL_EDITOR, "emacs");
    el_set(editor->line, EL_SIGNAL, 1);
    el_set(editor->line, EL_HIST, history, editor->history);
    el_source(editor->line, NULL);
    /* While a line is edited, Ctrl-C is a key and no signal. libedit takes over the terminal's own
     * keys when it first prepares it, so that comes before. */
    el_set(editor->line, EL_PREP_TERM, 1);
    el_set(editor->line, EL_PREP_TERM, 0);
    el_set(editor->line, EL_SETTY, "-d", "intr=", NULL);
    el_set(editor->line, EL_BIND, "^C", "ed-end-of-file", NULL);
}

struct editor *editor_open(const char *history_path) {
    struct editor *editor = allocate(sizeof *editor);
    use_utf8();
    editor->history = history_init();
    editor->line = el_init("kimi-chat", stdin, stderr, stderr);
    if (editor->history == NULL || editor->line == NULL) {
        editor_close(editor);
        return NULL;
    }
    load_history(editor->history, history_path);
    configure(editor);
    return editor;
}

int editor_read(struct editor *editor, const char *prompt, struct text *line) {
    HistEvent event;
    int n = 0;
    editor->prompt = prompt;
    el_set(editor->line, EL_PREP_TERM, 1); /* before the prompt, so that no key comes too early */
    const char *typed = el_gets(editor->line, &n);
    if (typed == NULL || n <= 0) {
        const LineInfo *dropped = el_line(editor->line);
        fputc('\n', stderr);
        text_add(line, dropped->buffer, (size_t)(dropped->lastchar - dropped->buffer));
        return 0;
    }
    if (n > 1) history(editor->history, &event, H_ENTER, typed);
    text_add(line, typed, (size_t)n - (typed[n - 1] == '\n'));
    return 1;
}

void editor_close(struct editor *editor) {
    if (editor == NULL) return;
    if (editor->line != NULL) el_end(editor->line);
    if (editor->history != NULL) history_end(editor->history);
    free(editor);
}
