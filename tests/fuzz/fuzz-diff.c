/* SPDX-License-Identifier: Apache-2.0 */
/* Two texts separated by 0xFF: the diff of them, applied to the first, gives the second. */
#include "../unit/unified.h"
#include "file/diff.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice after = { in, size };
	struct slice before = slice_cut(&after, '\xff');
	struct buf d = BUF_INIT(MIB(8)), made = BUF_INIT(MIB(4));

	if (!after.p)
		after.p = in;
	CHECK(diff_unified(before, after, SLICE("f"), &d) == 0);
	CHECK(unified_apply(before, (struct slice){ buf_str(&d), d.len }, &made));
	CHECK(slice_eq((struct slice){ buf_str(&made), made.len }, after));
	buf_fini(&d);
	buf_fini(&made);
	free(in);
	return 0;
}
