#include "tools.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of a member that holds a string. Returns 0 where there is none. The arguments are JSON
 * on one line, because --tools constrains them. */
static int string_member(const char *json, const char *name, struct text *out) {
    const char *at = strstr(json, name);
    if (at == NULL) return 0;
    at += strlen(name);
    at += strspn(at, "\": ");
    for (; *at != '\0' && *at != '"'; at++) {
        if (*at == '\\' && (at[1] == '"' || at[1] == '\\')) at++;
        text_add(out, at, 1);
    }
    return *at == '"';
}

/* "A + B", "A - B" or "A * B", of whole numbers. */
static void calculate(const char *expression, struct text *result) {
    char number[32], operation;
    long long a, b;
    int end = 0;
    if (sscanf(expression, "%9lld%*[ ]%c%*[ ]%9lld%n", &a, &operation, &b, &end) != 3 ||
        expression[end] != '\0' || strchr("+-*", operation) == NULL) {
        text_add_string(result, "error: expected two whole numbers with +, - or * between them");
        return;
    }
    snprintf(number, sizeof number, "%lld",
             operation == '+'   ? a + b
             : operation == '-' ? a - b
                                : a * b);
    text_add_string(result, number);
}

static int is_shown(const struct dirent *entry) {
    const char *name = entry->d_name;
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           utf8_valid(name, strlen(name)) == strlen(name);
}

/* The names in the current folder that contain the word, as JSON. */
static void search_files(const char *word, struct text *result) {
    struct dirent **entries;
    const int n = scandir(".", &entries, is_shown, alphasort);
    if (n < 0) {
        text_add_string(result, "error: ");
        text_add_string(result, strerror(errno));
        return;
    }
    text_add_string(result, "[");
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (strstr(name, word) != NULL) {
            if (result->len > 1) text_add_string(result, ", ");
            text_add_json(result, name, strlen(name));
        }
        free(entries[i]);
    }
    free(entries);
    text_add_string(result, "]");
}

static const struct tool {
    const char *name, *argument;
    void (*run)(const char *argument, struct text *result);
} tools[] = {{"calculate", "\"expression\"", calculate},
             {"search_files", "\"word\"", search_files}};

struct text tools_run(const struct call *call) {
    struct text argument = {0}, result = {0};
    text_add_string(&argument, "");
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
        if (strcmp(call->name.data, tools[i].name) != 0) continue;
        if (string_member(call->arguments.data, tools[i].argument, &argument))
            tools[i].run(argument.data, &result);
        else
            text_add_string(&result, "error: an argument is missing");
    }
    if (result.len == 0) text_add_string(&result, "error: there is no such function");
    text_free(&argument);
    return result;
}
