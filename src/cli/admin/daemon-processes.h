/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_ADMIN_DAEMON_PROCESSES_H
#define CAY_CLI_ADMIN_DAEMON_PROCESSES_H
/* daemon-processes - which daemons of Cay run on this machine, by their processes */
#include <stdbool.h>
#include <stddef.h>

enum daemon_program {
	DAEMON_CAYD,
	DAEMON_KEEPER,
	DAEMON_EDGE,
	DAEMON_MCP,
	DAEMON_E2B,
	DAEMON_OPENSANDBOX,
	DAEMON_PULL,
	DAEMON_EGRESS,
	DAEMON_BROKER,
	DAEMON_NUM
};

struct daemon_processes {
	const char *name;
	unsigned running;
	unsigned replaced; /* of them: their program was replaced since, by an upgrade */
};

/* Only root can read what a process runs.  -EACCES: the caller is not root. */
[[nodiscard]] int daemon_processes_count(struct daemon_processes ret[static DAEMON_NUM]);
#endif
