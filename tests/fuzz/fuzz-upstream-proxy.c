/* SPDX-License-Identifier: Apache-2.0 */
/* The settings egress.proxy and egress.no_proxy, one a line: a proxy that is accepted has a host
 * and a port, and none has a user. */
#include <stdlib.h>
#include <string.h>

#include "egress/upstream-proxy.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct upstream_proxy p;
	char *text = malloc(size + 1), *second;
	struct host_name name;

	CHECK(text);
	if (size)
		memcpy(text, data, size);
	text[size] = 0;
	second = strchr(text, '\n');
	if (second)
		*second++ = 0;
	if (upstream_proxy_parse(text, second ? second : "", &p, NULL) == 0) {
		CHECK(p.set == !!text[0] && p.n_except <= UPSTREAM_EXCEPT_MAX);
		CHECK(!p.set || (p.port && !strchr(text, '@') && !strchr(text + 7, '/')));
		CHECK(host_name_parse(SLICE("a.example"), &name) == 0);
		CHECK(p.set || !upstream_proxy_has_name(&p, &name));
		for (size_t i = 0; i < p.n_except; i++)
			if (p.except[i].kind == EGRESS_TO_NAME)
				CHECK(!upstream_proxy_has_name(&p, &p.except[i].name));
	}
	free(text);
	return 0;
}
