/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_SIGNALS_H
#define CAY_INIT_CORE_SIGNALS_H
/*
 * signals - their names, as they stand in requests and in ends
 *
 * Real-time signals are counted from the kernel's 32, not from the libc's idea
 * of the first free one: the program inside may use another libc.
 */
#include "base/str.h"

#define SIGNAL_TEXT_MAX 16
#define SIGNAL_RT_FIRST 32
#define SIGNAL_LAST 64

/* "TERM", "SIGTERM", "RTMIN+3", "SIGRTMAX-1"; -EINVAL for anything else. */
[[nodiscard]] int signal_parse(struct slice s);
/* "SIGTERM", "SIGRTMIN+3"; "SIG99" for what has no name. */
void signal_format(int sig, char ret[static SIGNAL_TEXT_MAX]);
#endif
