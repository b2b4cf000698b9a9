/* SPDX-License-Identifier: Apache-2.0 */
/* A line is a record only in the one spelling it is written back in. */
#include "audit/audit.h"
#include "base/buf.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	auto_buf out = BUF_INIT(AUDIT_LINE_MAX);
	struct audit_record rec, again;

	if (audit_record_parse(in, size, &rec) == 0) {
		CHECK(rec.seq && rec.op[0] && strlen(rec.prev) == AUDIT_HEX_LEN);
		CHECK(!memchr(in, '\n', size));
		CHECK(audit_record_format(&rec, &out) == 0);
		CHECK(out.len == size && memcmp(out.data, in, size) == 0);
		CHECK(audit_record_parse(out.data, out.len, &again) == 0);
		CHECK(memcmp(&rec, &again, sizeof(rec)) == 0);
	}
	free(in);
	return 0;
}
