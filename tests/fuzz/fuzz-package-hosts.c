/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration of package clients, in the syntax that the first byte chooses: every host is one
 * that a rule can name and that the text has, lines do not go back, and a reader ends when it is
 * told to. */
#include "egress/package-hosts.h"
#include "egress/policy.h"
#include "fuzz.h"

#define STOP_AT 32

struct seen {
	struct slice text;
	unsigned n, line, lines;
};

static bool has_ignoring_case(struct slice text, const char *what)
{
	size_t n = strlen(what);

	for (size_t i = 0; i + n <= text.n; i++)
		if (!strncasecmp(text.p + i, what, n))
			return true;
	return false;
}

static int on_host(void *arg, const struct package_host *h)
{
	struct seen *s = arg;
	struct egress_target to;

	CHECK(h->line >= s->line && h->line <= s->lines);
	s->line = h->line;
	CHECK(!h->port == !h->host[0]);
	if (h->port) {
		CHECK(egress_target_parse(slice_of(h->host), &to, NULL) == 0);
		CHECK(to.kind == EGRESS_TO_NAME || (to.kind == EGRESS_TO_NET && to.prefix == 32));
		CHECK(has_ignoring_case(s->text, h->host));
	}
	return ++s->n == STOP_AT ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in;
	struct seen s = { .lines = 1 };

	if (!size)
		return 0;
	in = fuzz_copy(data + 1, size - 1);
	s.text = (struct slice){ in, size - 1 };
	for (size_t i = 0; i < s.text.n; i++)
		s.lines += in[i] == '\n';
	CHECK((package_hosts_read(data[0] % PACKAGE_SYNTAX_NUM, s.text, on_host, &s) < 0) ==
	      (s.n == STOP_AT));
	CHECK(s.n <= STOP_AT);
	free(in);
	return 0;
}
