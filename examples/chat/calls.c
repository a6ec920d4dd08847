#include "calls.h"

#include <stdlib.h>

void calls_add(struct calls *calls, const kimi_event *event) {
    struct call call = {0};
    text_add(&call.id, event->id, event->id_len);
    text_add(&call.name, event->name, event->name_len);
    text_add(&call.arguments, event->text, event->text_len);
    calls->list = reallocate(calls->list, (calls->n + 1) * sizeof *calls->list);
    calls->list[calls->n++] = call;
}

void calls_free(struct calls *calls) {
    for (size_t i = 0; i < calls->n; i++) {
        text_free(&calls->list[i].id);
        text_free(&calls->list[i].name);
        text_free(&calls->list[i].arguments);
    }
    free(calls->list);
    *calls = (struct calls){0};
}
