#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"

/* Makes the folders that the path names, for the user alone. */
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

char *history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct text path = {0};
    if (state != NULL && *state == '/') { /* the XDG specification: others are to be ignored */
        text_add_string(&path, state);
    } else if (home != NULL && *home == '/') {
        text_add_string(&path, home);
        text_add_string(&path, "/.local/state");
    } else {
        return NULL;
    }
    text_add_string(&path, "/kimi-chat/history");
    make_folders(path.data);
    return path.data;
}

void history_append(const char *path, const char *line) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%s\n", line) < 0)
        fprintf(stderr, "kimi-chat: %s: %s\n", path, strerror(errno));
    if (fd >= 0) close(fd);
}
