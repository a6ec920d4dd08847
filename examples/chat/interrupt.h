/* Ctrl-C while a reply runs cancels it; a second one ends the program. */
#ifndef KIMI_CHAT_INTERRUPT_H
#define KIMI_CHAT_INTERRUPT_H

#include <kimi/kimi.h>

/* From arm to disarm, the first SIGINT cancels the session's reply, and the next has its ordinary
 * effect. The caller holds the session for the rest of the program. */
void interrupt_arm(kimi_session *session);
void interrupt_disarm(void);

#endif
