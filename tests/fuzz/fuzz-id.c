/* SPDX-License-Identifier: Apache-2.0 */
/* One id, one spelling; and the router agrees about what an id is. */
#include "base/id.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct id id;

	if (id_parse(ID_NONE, (struct slice){ in, size }, &id) == 0) {
		char text[ID_TEXT_LEN + 1];

		id_format(&id, text);
		CHECK(size == ID_TEXT_LEN && memcmp(text, in, size) == 0);
		CHECK(id_is_valid(&id, ID_NONE));
	}
	free(in);
	return 0;
}
