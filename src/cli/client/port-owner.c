/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/port-owner.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/path.h"

#define TABLE_MAX MIB(16)
#define EDGE_USER "cay-edge"

enum { AT_LOCAL = 1, AT_STATE = 3, AT_UID = 7, COLUMNS = 8 };

/* Missing columns are empty. */
static void port_owner_split_columns(struct slice line, struct slice ret[static COLUMNS])
{
	for (size_t i = 0; i < COLUMNS; i++) {
		while (line.n && line.p[0] == ' ')
			line = (struct slice){ line.p + 1, line.n - 1 };
		ret[i] = line.n ? slice_cut(&line, ' ') : (struct slice){};
	}
}

static bool port_owner_row_listens(const struct slice column[static COLUMNS], unsigned port)
{
	struct slice at = column[AT_LOCAL];
	char want[8];
	int n = snprintf(want, sizeof(want), ":%04X", port);

	return slice_eq(column[AT_STATE], SLICE("0A")) && n == 5 && at.n > 5 &&
	       memcmp(at.p + at.n - 5, want, 5) == 0;
}

int port_owner_check_table(struct slice table, unsigned port, const unsigned *uids, size_t n)
{
	int found = 0;

	while (table.n) {
		struct slice column[COLUMNS];
		bool ours = false;
		uint64_t uid;

		port_owner_split_columns(slice_cut(&table, '\n'), column);
		if (!port_owner_row_listens(column, port))
			continue;
		if (str_parse_u64(column[AT_UID], 0, UINT32_MAX, &uid) < 0)
			return -EACCES;
		for (size_t i = 0; i < n; i++)
			ours |= uid == uids[i];
		if (!ours)
			return -EACCES;
		found++;
	}
	return found;
}

int port_owner_check_trusted(unsigned port, struct cay_err *err)
{
	static const char *const tables[] = { "tcp", "tcp6" };
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): no threads */
	const struct passwd *edge = getpwnam(EDGE_USER);
	unsigned uids[] = { 0, geteuid(), edge ? edge->pw_uid : 0 };
	auto_close int dir = open("/proc/self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		auto_buf text = BUF_INIT(TABLE_MAX);
		int r = dir < 0 ? -errno : path_read(dir, tables[i], &text);

		if (r == -ENOENT) /* a kernel without IPv6 */
			continue;
		if (r >= 0)
			r = port_owner_check_table((struct slice){ text.data, text.len }, port,
						   uids, ARRAY_SIZE(uids));
		if (r == -EACCES)
			return cay_fail(err, CAY_E_FORBIDDEN,
					"port %u is held by a process other than cay-edge; "
					"refusing to send it the operator key",
					port);
		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read /proc/self/net/%s",
					    tables[i]);
		found += r;
	}
	return found ? 0
		     : cay_fail(err, CAY_E_UNAVAILABLE, "no process listens on port %u any more",
				port);
}
