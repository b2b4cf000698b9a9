/* SPDX-License-Identifier: Apache-2.0 */
/* What whoever took PID 1 over says of a start that failed: as text and as an answer. */
#include "fuzz.h"
#include "wire/start.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), out[START_SIZE];
	struct start_failure f;

	if (start_failure_decode(in, size, &f) == 0) {
		start_failure_encode(&f, out);
		CHECK(size == START_SIZE && memcmp(in, out, size) == 0);
		CHECK(utf8_is_valid(f.text, strlen(f.text)) && !strpbrk(f.text, "\n\r\x1b"));
	}
	/* any bytes make texts that are accepted */
	f = (struct start_failure){ .what = START_TIMED_OUT };
	start_failure_set_text(f.script, START_SCRIPT_MAX,
			       (struct slice){ (const char *)in, size });
	start_failure_set_text(f.text, START_TEXT_MAX, (struct slice){ (const char *)in, size });
	start_failure_encode(&f, out);
	CHECK(start_failure_decode(out, sizeof(out), &f) == 0);
	free(in);
	return 0;
}
