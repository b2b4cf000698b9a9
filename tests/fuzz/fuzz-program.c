/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's file of services: what is found could be started as it is. */
#include "fuzz.h"
#include "init/program.h"
#include "init/scan.h"
#include "init/signals.h"

static void check(void *arg, struct program *p)
{
	(*(unsigned *)arg)++;
	CHECK(op_name_valid(slice_of(p->name)) && p->source && p->source[0]);
	CHECK(strnlen(p->refused, sizeof(p->refused)) < sizeof(p->refused));
	if (!p->refused[0]) {
		CHECK(p->argv.n && p->argv.n <= PROGRAM_ARGS_MAX && p->argv.v[0][0]);
		CHECK(!p->argv.v[p->argv.n]);
		for (size_t i = 0; i < p->argv.n; i++)
			CHECK(utf8_valid(p->argv.v[i], strlen(p->argv.v[i])));
		CHECK(p->env.n <= PROGRAM_ENV_MAX);
		for (size_t i = 0; i < p->env.n; i++)
			CHECK(p->env.keys[i][0] && !strchr(p->env.keys[i], '=') &&
			      p->env.values[i]);
		CHECK(p->autorestart < SERVICE_NUM_RESTARTS);
		CHECK(p->stop_signal > 0 && p->stop_signal <= SIGNAL_LAST);
		CHECK(!p->cwd || p->cwd[0] == '/');
	}
	program_fini(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice rest = { in, size };
	struct scan_item item;
	unsigned n = 0;

	program_parse(rest, "/etc/x.conf", NULL, check, &n);
	CHECK(n <= PROGRAM_SECTIONS_MAX);
	/* the same bytes as what a look at the files said */
	while (scan_next(&rest, &item) > 0)
		CHECK(item.path[0] == '/' && item.content.p >= in &&
		      item.content.p + item.content.n <= in + size);
	free(in);
	return 0;
}
