/* SPDX-License-Identifier: Apache-2.0 */
/* json_decode: a 500-byte create body from text to struct, limits and all,
 * against jansson building and dropping the same tree. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "ops/types.h"

static const char body[] =
	"{\"image\":\"registry.local/team/python-agent:2026.11\",\"name\":\"crawler-17\","
	"\"labels\":{\"app.kubernetes.io/"
	"name\":\"crawler\",\"team\":\"research\",\"tier\":\"batch\","
	"\"run\":\"0f3a9c1d\"},\"env\":{\"LANG\":\"C.UTF-8\",\"PYTHONUNBUFFERED\":\"1\","
	"\"CRAWL_SEEDS\":\"/workspace/seeds.txt\",\"CRAWL_DEPTH\":\"3\",\"HTTP_TIMEOUT\":\"30\","
	"\"OUTPUT_DIR\":\"/workspace/"
	"out\",\"LOG_LEVEL\":\"info\",\"PROXY\":\"none\",\"USER_AGENT\":\"cay-crawler/1.0 "
	"(research)\",\"RETRIES\":\"5\"},\"limits\":{\"memory_bytes\":\"1Gi\","
	"\"cpu_milli\":\"1500m\",\"pids\":256},\"wait\":true}";

static void ours(void *)
{
	auto_arena arena = ARENA_INIT(KIB(16));
	auto_json j = NULL;
	struct sandbox_create c = {};
	int r = json_parse((struct slice){ body, sizeof(body) - 1 }, &json_control_limits, &j,
			   NULL);

	if (r >= 0)
		r = field_decode(&sandbox_create_table, j, &arena, &c, NULL);
	assert(r == 0 && c.limits.cpu_milli == 1500);
}

static void jansson_only(void *)
{
	json_t *j = json_loadb(body, sizeof(body) - 1, 0, NULL);

	assert(j);
	json_decref(j);
}

int main(void)
{
	char note[128];

	if (snprintf(note, sizeof(note), "%zu bytes; text to checked struct", sizeof(body) - 1) < 0)
		return 1;
	return bench_run(&(struct bench){ .name = "json_decode",
					  .ours = ours,
					  .baseline_name = "json_loadb",
					  .baseline = jansson_only,
					  .note = note }) < 0;
}
