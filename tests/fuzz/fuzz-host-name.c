/* SPDX-License-Identifier: Apache-2.0 */
/* A question of DNS, and the same bytes as text: what is read is a name, and reads as itself again.
 */
#include "egress/policy.h"
#include "fuzz.h"

static void name_check(const struct host_name *n)
{
	struct host_name again;

	CHECK(n->n && n->n <= HOST_NAME_MAX_LEN && strlen(n->text) == n->n);
	CHECK(strspn(n->text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == n->n);
	CHECK(strchr(n->text, '.') && n->text[0] != '.' && n->text[n->n - 1] != '.');
	CHECK(host_name_parse((struct slice){ n->text, n->n }, &again) == 0);
	CHECK(host_name_eq(n, (struct slice){ again.text, again.n }));
	CHECK(!host_name_is_below(n, (struct slice){ again.text, again.n }));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct egress_target to;
	struct cay_err err = {};
	struct host_name n = {};
	ssize_t used = host_name_read_wire((const uint8_t *)in, size, &n);

	if (used >= 0) {
		CHECK((size_t)used <= size && (size_t)used == (size_t)n.n + 2);
		name_check(&n);
	}
	if (host_name_parse((struct slice){ in, size }, &n) == 0)
		name_check(&n);
	if (egress_target_parse((struct slice){ in, size }, &to, &err) == 0 &&
	    (to.kind == EGRESS_TO_NAME || to.kind == EGRESS_TO_BELOW))
		name_check(&to.name);
	free(in);
	return 0;
}
