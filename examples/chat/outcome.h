/* The program's exit statuses, as --help and README.md state them. */
#ifndef KIMI_CHAT_OUTCOME_H
#define KIMI_CHAT_OUTCOME_H

enum {
    EXIT_STOP = 0,        /* the model ended its reply; or the dialogue was left */
    EXIT_ERROR = 1,       /* the library or the system refused something */
    EXIT_USAGE = 2,       /* wrong command line, or input that is not UTF-8 */
    EXIT_LENGTH = 3,      /* the reply was cut at --max-tokens or the context limit */
    EXIT_CANCELLED = 130, /* Ctrl-C */
    EXIT_PIPE = 141       /* the reader of stdout went away */
};

#endif
