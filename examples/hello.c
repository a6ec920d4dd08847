/* The smallest program on libkimi: asks one question and prints the reply as it is generated. */
#include <kimi/kimi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static const char chat[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What is DFlash?\"}],"
        " \"thinking\": false}";
    kimi_error error;
    kimi_engine_options options;
    kimi_engine *engine = NULL;
    kimi_session *session = NULL;
    kimi_step step;
    kimi_status status;

    if (argc != 2) return fprintf(stderr, "usage: hello DEPLOYMENT\n"), 2;
    kimi_error_init(&error);
    kimi_engine_options_init(&options);
    options.deployment = argv[1];
    status = kimi_engine_create(&options, &engine, &error);
    if (status == KIMI_OK) status = kimi_session_create(engine, NULL, &session, &error);
    if (status == KIMI_OK) status = kimi_session_append_chat(session, chat, strlen(chat), &error);

    kimi_step_init(&step);
    while (status == KIMI_OK && step.finish_reason == KIMI_FINISH_NONE) {
        status = kimi_decode_step(session, &step, &error);
        if (status == KIMI_OK) fwrite(step.text, 1, step.text_len, stdout);
        fflush(stdout);
    }
    if (status == KIMI_OK)
        putchar('\n');
    else
        fprintf(stderr, "%s\n", error.message);
    kimi_session_destroy(session);
    kimi_engine_destroy(engine);
    return status == KIMI_OK ? 0 : 1;
}
