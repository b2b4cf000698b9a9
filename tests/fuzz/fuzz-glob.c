/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern and a path, separated by a line feed: one name against a plain pattern agrees with
 * a matcher that tries everything, and a walk that is told to stop would have found nothing. */
#include "file/glob.h"
#include "fuzz.h"

/* The obvious one: [ab] and such left out. */
static bool naive(struct slice p, struct slice s)
{
	if (!p.n)
		return !s.n;
	if (p.p[0] == '*')
		return naive((struct slice){ p.p + 1, p.n - 1 }, s) ||
		       (s.n && naive(p, (struct slice){ s.p + 1, s.n - 1 }));
	return s.n && (p.p[0] == '?' || p.p[0] == s.p[0]) &&
	       naive((struct slice){ p.p + 1, p.n - 1 }, (struct slice){ s.p + 1, s.n - 1 });
}

static bool plain(struct slice p)
{
	for (size_t i = 0; i < p.n; i++)
		if (strchr("[]{}\\/,", p.p[i]))
			return false;
	return p.n && p.n <= 12;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice path = { in, size };
	struct slice pattern = slice_cut(&path, '\n'), rest = path;
	struct cay_err err = {};
	struct glob g = {};
	struct glob_position at;

	if (glob_init(&g, pattern, true, &err) < 0) {
		CHECK(err.code == CAY_E_INVALID && err.msg[0]);
		goto out;
	}
	CHECK(g.n >= 1 && g.n <= GLOB_ALTS_MAX);
	glob_start(&g, &at);
	while (rest.p) {
		struct slice name = slice_cut(&rest, '/');
		bool open = glob_can_match_below(&g, &at);

		if (!name.n)
			continue;
		glob_step(&g, &at, name, &at);
		CHECK(open || (!glob_is_match(&g, &at, true) && !glob_can_match_below(&g, &at)));
	}
	if (path.p && plain(pattern) && path.n && path.n <= 24 && !memchr(path.p, '/', path.n) &&
	    !slice_eq(pattern, SLICE("**")) && !slice_eq(pattern, SLICE(".")))
		CHECK(glob_match_path(&g, path, false) == naive(pattern, path));
out:
	glob_fini(&g);
	free(in);
	return 0;
}
