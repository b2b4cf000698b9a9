/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's file of services: what is found could be started as it is. */
#include "fuzz.h"
#include "init/core/signals.h"
#include "init/service/image-scan.h"
#include "init/service/service-config.h"

static void check(void *arg, struct service_config *p)
{
	(*(unsigned *)arg)++;
	CHECK(op_name_is_valid(slice_of(p->name)) && p->source && p->source[0]);
	CHECK(strnlen(p->refused_why, sizeof(p->refused_why)) < sizeof(p->refused_why));
	if (!p->refused_why[0]) {
		CHECK(p->argv.n && p->argv.n <= SERVICE_CONFIG_ARGS_MAX && p->argv.v[0][0]);
		CHECK(!p->argv.v[p->argv.n]);
		for (size_t i = 0; i < p->argv.n; i++)
			CHECK(utf8_is_valid(p->argv.v[i], strlen(p->argv.v[i])));
		CHECK(p->env.n <= SERVICE_CONFIG_ENV_MAX);
		for (size_t i = 0; i < p->env.n; i++)
			CHECK(p->env.keys[i][0] && !strchr(p->env.keys[i], '=') &&
			      p->env.values[i]);
		CHECK(p->autorestart < SERVICE_NUM_RESTARTS);
		CHECK(p->stop_signal > 0 && p->stop_signal <= SIGNAL_LAST);
		CHECK(!p->cwd || p->cwd[0] == '/');
	}
	service_config_fini(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice rest = { in, size };
	struct image_scan_item item;
	unsigned n = 0;

	service_config_parse_file(rest, "/etc/x.conf", NULL, check, &n);
	CHECK(n <= SERVICE_CONFIG_SECTIONS_MAX);
	/* the same bytes as what a look at the files said */
	while (image_scan_next_item(&rest, &item) > 0)
		CHECK(item.path[0] == '/' && item.content.p >= in &&
		      item.content.p + item.content.n <= in + size);
	free(in);
	return 0;
}
