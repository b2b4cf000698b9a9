/* SPDX-License-Identifier: Apache-2.0 */
/* What a shell inside wrote as its environment, before and after a start script. */
#include "fuzz.h"
#include "init/service/start-env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	auto_arena arena = ARENA_INIT(KIB(512));
	const char *keys[] = { "A", "HOME" }, *values[] = { "1", "/" };
	struct field_map env = { keys, values, 2 };

	if (start_env_merge((struct slice){ text, size }, &arena, &env) < 0)
		CHECK(env.keys == keys && env.n == 2);
	CHECK(env.n >= 2 && env.n <= START_ENV_MAX);
	for (size_t i = 0; i < env.n; i++)
		CHECK(env.keys[i][0] && !strchr(env.keys[i], '=') && env.values[i] &&
		      strcmp(env.keys[i], "PWD") != 0);
	free(text);
	return 0;
}
