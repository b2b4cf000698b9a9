/* SPDX-License-Identifier: Apache-2.0 */
/* A url is refused with a message, or it is spelled back as one that reads the same,
 * and what is called loopback is loopback to the system's own reader of addresses. */
#include <arpa/inet.h>

#include "cli/client/url.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size), again[URL_MAX];
	struct cay_err err = {};
	struct url u, v;
	struct in_addr a;

	if (url_parse((struct slice){ text, size }, &u, &err) < 0) {
		CHECK(err.code == CAY_E_INVALID && err.msg[0]);
		free(text);
		return 0;
	}
	CHECK(!err.code && u.port >= 1 && u.port <= 65535 && strlen(u.host) <= URL_HOST_MAX);
	CHECK(!strpbrk(u.host, "@/?#[] \r\n"));
	/* whatever a resolver takes for an address, we did too */
	CHECK(inet_aton(u.host, &a) == 0 || u.address);
	CHECK(!u.loopback || str_eq(u.host, "localhost") || str_eq(u.host, "::1") || u.address);
	url_format(&u, again);
	CHECK(url_parse(slice_of(again), &v, &err) == 0 && memcmp(&u, &v, sizeof(u)) == 0);
	free(text);
	return 0;
}
