/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_SIGNALS_H
#define CAY_INIT_CORE_SIGNALS_H
/*
 * signals - signal names, as in requests and in the end of an exec
 *
 * Real-time signals count from the kernel's 32, not from the libc's SIGRTMIN: the program
 * inside may use another libc.
 */
#include "base/str.h"

#define SIGNAL_TEXT_MAX 16
#define SIGNAL_RT_FIRST 32
#define SIGNAL_LAST 64

/* "TERM", "SIGTERM", "RTMIN+3", "SIGRTMAX-1"; -EINVAL for anything else. */
[[nodiscard]] int signal_parse(struct slice s);
/* "SIGTERM", "SIGRTMIN+3"; "SIG99" for one without a name. */
void signal_format(int sig, char ret[static SIGNAL_TEXT_MAX]);
#endif
