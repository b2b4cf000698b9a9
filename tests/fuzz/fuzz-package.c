/* SPDX-License-Identifier: Apache-2.0 */
/* What passes as a package is one argument: no option, no space, no path, no address. */
#include <string.h>

#include "fuzz.h"
#include "ops/package.h"

static void check_argument(const char *arg, size_t manager)
{
	size_t n = strlen(arg), slashes = 0;

	CHECK(n && arg[0] != '-' && arg[0] != '.' && arg[0] != '/');
	for (size_t i = 0; i < n; i++) {
		CHECK(arg[i] > ' ' && arg[i] <= '~' &&
		      !strchr(":;&|<>()$`\"'\\*?[]{}~#%^,", arg[i]));
		slashes += arg[i] == '/';
	}
	CHECK(slashes == 0 || (manager == 1 && slashes == 1 && arg[0] == '@'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t which = size ? data[0] % 3 : 0, cut;
	char *in = fuzz_copy(data, size);
	const struct package_manager *m = &package_managers[which];
	auto_arena arena = ARENA_INIT(KIB(64));
	struct field_texts argv = {};
	struct packages p = {};
	const char *name, *version;
	char *text = calloc(1, size + 2);

	CHECK(text);
	if (size)
		memcpy(text, in + 1, size - 1);
	name = text;
	cut = strcspn(text, "\n");
	version = text[cut] ? text + cut + 1 : "";
	text[cut] = 0;
	memcpy((char *)&p + m->offset, &(struct field_map){ &name, &version, 1 },
	       sizeof(struct field_map));
	if (packages_check(&p, NULL) == 0) {
		CHECK(package_install_argv(m, packages_get_map(&p, m), &arena, &argv) == 0);
		for (size_t i = argv.n - (which == 2 ? 2 : 1); i < argv.n; i++)
			check_argument(argv.v[i], which);
	}
	free(text);
	free(in);
	return 0;
}
