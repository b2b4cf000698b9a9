/* SPDX-License-Identifier: Apache-2.0 */
/* What an edge sends to cay: a message lies inside what came, is no longer than allowed,
 * a part of it asks for more, and nothing that is refused is accepted with more behind. */
#include "cli/client/websocket.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), *at = in;
	struct websocket_message m, part;
	ssize_t n;

	while ((n = websocket_read_message(at, size, &m)) > 0) {
		CHECK((size_t)n <= size && m.data.n <= WEBSOCKET_MESSAGE_MAX);
		CHECK((const uint8_t *)m.data.p + m.data.n == at + n);
		CHECK(m.kind == WEBSOCKET_BINARY ||
		      (m.kind >= WEBSOCKET_CLOSE && m.kind <= WEBSOCKET_PONG));
		CHECK(m.kind == WEBSOCKET_BINARY || m.data.n <= 125);
		for (ssize_t k = 0; k < n; k += 1 + n / 8)
			CHECK(websocket_read_message(at, (size_t)k, &part) == 0);
		at += n;
		size -= (size_t)n;
	}
	CHECK(n == 0 || n == -EPROTO);
	free(in);
	return 0;
}
