/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_PULL_PULL_CONFINE_H
#define CAY_PULL_PULL_CONFINE_H
/*
 * pull-confine - what a program that talks to registries can reach
 *
 *	files    (Landlock) its own directory; programs, libraries, certificates and the resolver's
 *	         configuration read-only; nothing else can be opened
 *	sockets  (seccomp) internet sockets only, so none of ours; no TCP port to listen on
 *	others   no signal, no tracing, no namespaces, no io_uring, which no filter sees
 *	limits   memory, processes, size of a file, no core
 *
 * The filter is a list of refused calls: a list of allowed ones would have to follow each release
 * of Go's runtime.  The user of cay-pull is the first barrier, this one the second.
 */
#include <stdint.h>

#include "base/err.h"

struct pull_confine {
	int dir_fd;          /* its directory */
	const char *program; /* may be executed wherever it is */
	uint64_t file_max;   /* bytes */
};

/* Whether this kernel can do it: cay-pull does not start without. */
[[nodiscard]] int pull_confine_probe(struct cay_err *err);
/* Of the calling process, for ever; it has one thread and executes the program next. */
[[nodiscard]] int pull_confine_self(const struct pull_confine *c);
#endif
