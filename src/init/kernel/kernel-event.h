/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_KERNEL_KERNEL_EVENT_H
#define CAY_INIT_KERNEL_KERNEL_EVENT_H
/*
 * kernel-event - what a run in a kernel tells between bytes of its output
 *
 * Made from a frame of the runner, whose payload is checked by the tables of the API; kept with its
 * run; written as a JSON object with one member: {"result": {...}}, {"exception": {...}},
 * {"clear": {"wait": true}} or {"execution_count": 3}.
 */
#include "base/arena.h"
#include "init/exec/output-stream.h"
#include "init/kernel/kernel-frame.h"

enum kernel_event_type {
	KERNEL_EVENT_RESULT,
	KERNEL_EVENT_EXCEPTION,
	KERNEL_EVENT_CLEAR,
	KERNEL_EVENT_COUNT,
};

struct kernel_event {
	struct output_event base;
	enum kernel_event_type type;
	size_t size; /* of its memory */
	struct arena arena;
	struct kernel_result result;
	struct kernel_exception exception;
	bool wait;
	uint64_t execution_count;
};

/* Of a frame R, E, U or C.  -EPROTO: it is none; -EINVAL: it is one that no reply can have;
 * -ENOMEM. */
[[nodiscard]] int kernel_event_new(const struct kernel_frame *f, struct kernel_event **ret);
void kernel_event_free(struct kernel_event *e);
/* For struct output_range. */
const char *kernel_event_name(const struct output_event *e);
void kernel_event_write(const struct output_event *e, struct jw *w);

/* What the frames H and D say; texts that are too long or no text are empty. */
struct kernel_report {
	char version[129], implementation[129], cwd[4097];
	bool is_error;
};
[[nodiscard]] int kernel_report_read(const struct kernel_frame *f, struct kernel_report *ret);
#endif
