/* SPDX-License-Identifier: Apache-2.0 */
/* The settings file: never crashes, errors name a line, paths are ended. */
#include "fuzz.h"
#include "ops/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct cay_err err = {};
	struct settings s;
	int r;

	conf_set_defaults(&settings_table, &s);
	r = conf_parse(&settings_table, (struct slice){ in, size }, "f", &s, &err);
	CHECK(r == 0 || (strncmp(err.msg, "f:", 2) == 0 && err.code == CAY_E_INVALID));
	CHECK(s.state_dir[0] == '/' && memchr(s.state_dir, 0, sizeof(s.state_dir)));
	CHECK(s.run_dir[0] == '/' && memchr(s.run_dir, 0, sizeof(s.run_dir)));
	free(in);
	return 0;
}
