/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that a kernel writes to PID 1: in pieces of any size they are the same frames, and an
 * event of one can be written as JSON. */
#include "fuzz.h"
#include "init/kernel/kernel-event.h"

static void check_frame(const struct kernel_frame *f)
{
	auto_buf text = BUF_INIT(MIB(64));
	struct jw w = jw_to(&text);
	struct kernel_report report;
	struct kernel_event *e;

	if (f->type == 'H' || f->type == 'D') {
		(void)kernel_report_read(f, &report);
		return;
	}
	if (kernel_event_new(f, &e) < 0)
		return;
	kernel_event_write(&e->base, &w);
	CHECK(jw_finish(&w) >= 0);
	CHECK(kernel_event_name(&e->base)[0]);
	kernel_event_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel_frame_reader r = {};
	struct kernel_frame f;
	size_t step = size ? 1 + data[0] % 64 : 1;

	for (size_t at = 0; at < size;) {
		size_t n = size - at < step ? size - at : step;
		ssize_t taken = kernel_frame_read(&r, data + at, n, &f);

		if (taken < 0)
			break;
		CHECK(taken > 0 && (size_t)taken <= n);
		at += (size_t)taken;
		if (f.type)
			check_frame(&f);
	}
	kernel_frame_reader_fini(&r);
	return 0;
}
