#include "interrupt.h"

#include <signal.h>
#include <string.h>

static kimi_session *volatile running;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    kimi_session_cancel(running);
}

static void set_action(void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND; /* the second SIGINT finds the default */
    sigaction(SIGINT, &action, NULL);
}

void interrupt_arm(kimi_session *session) {
    running = session;
    set_action(on_interrupt);
}

void interrupt_disarm(void) {
    set_action(SIG_DFL);
}
