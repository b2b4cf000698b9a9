/* SPDX-License-Identifier: Apache-2.0 */
/* "METHOD target": what is found is spelled exactly as the row says; only a sandbox's name may be
 * encoded, and what it decodes to is a name and leads nowhere. */
#include "fuzz.h"
#include "ops/op.h"
#include "text/percent.h"

static void name_check(const struct op_match *m, struct slice segment)
{
	struct slice name = slice_of(m->sandbox_name);
	char again[3 * SANDBOX_NAME_MAX], decoded[3 * SANDBOX_NAME_MAX];
	size_t n, len;
	struct id id;

	CHECK(segment.p == m->sandbox_segment.p && segment.n == m->sandbox_segment.n);
	CHECK(name.n && name.n <= SANDBOX_NAME_MAX);
	CHECK(name.p[0] != '.' && !memchr(name.p, '/', name.n));
	CHECK(utf8_is_valid(name.p, name.n) && id_parse(ID_SANDBOX, name, &id) < 0);
	for (size_t i = 0; i < name.n; i++)
		CHECK((unsigned char)name.p[i] >= ' ' && name.p[i] != 0x7f);
	CHECK(!op_match_is_resolved(m) && !op_match_target(m));
	n = percent_encode(name.p, name.n, again);
	CHECK(percent_decode(again, n, decoded, &len) == 0 && len == name.n &&
	      memcmp(decoded, name.p, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice target = { in, size }, method = slice_cut(&target, ' ');
	struct op_match m = {};
	struct cay_err err = {};
	unsigned allow = 0;

	if (op_find(method, target, &m, &allow, &err) == 0) {
		struct slice path = target, want = slice_of(m.op->path);

		path = slice_cut(&target, '?');
		if (m.op->alias && slice_eq(path, slice_of(m.op->alias)))
			want = slice_of(m.op->alias);
		CHECK(slice_eq(method, slice_of(op_method_name(m.op->method))));
		CHECK(!memchr(path.p, 0, path.n));
		while (want.p) {
			struct slice w = slice_cut(&want, '/'), p = slice_cut(&path, '/');

			if (slice_eq(w, SLICE("{sandbox}")) && m.sandbox_segment.n)
				name_check(&m, p);
			else if (slice_eq(w, SLICE("{service}")))
				CHECK(op_name_is_valid(p) && p.p == m.name.p && p.n == m.name.n);
			else
				CHECK(w.n && w.p[0] == '{' ? p.n == ID_TEXT_LEN : slice_eq(w, p));
		}
		for (unsigned i = 0; i < m.n_params; i++)
			CHECK(id_is_valid(&m.params[i], ID_NONE));
	} else {
		CHECK(err.code == (allow ? CAY_E_METHOD : CAY_E_NOT_FOUND));
	}
	free(in);
	return 0;
}
