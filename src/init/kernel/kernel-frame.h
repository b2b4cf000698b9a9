/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_KERNEL_KERNEL_FRAME_H
#define CAY_INIT_KERNEL_KERNEL_FRAME_H
/*
 * kernel-frame - messages between PID 1 and the runner of a kernel
 *
 *	u32   length of the payload, little-endian; at most KERNEL_FRAME_MAX
 *	u8    type, a letter
 *	...   payload: a JSON object, or nothing
 *
 *	X  to the runner: run {code, silent, env, cwd}
 *	A  to the runner: go on after R, E or U
 *	G  to the runner: begin, after a fork (kernel-parent.h)
 *	I  to the runner: interrupt, where signals do not do
 *	H  ready {version, implementation}
 *	C  the run has begun {execution_count}
 *	R  a result {main, data, metadata, display_id, update, cut}
 *	E  an exception {name, value, traceback, late}
 *	U  clear the results {wait}
 *	D  the run is over {status, cwd}
 *
 * Any process of the kernel can write to the runner's end, so a frame may hold anything.  Pure.
 */
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

#define KERNEL_FRAME_HEAD 5
#define KERNEL_FRAME_MAX MIB(5)

struct kernel_frame {
	char type; /* 0: none is complete */
	struct slice payload;
};

struct kernel_frame_reader {
	uint8_t head[KERNEL_FRAME_HEAD];
	size_t n_head;
	uint32_t length;
	struct buf payload;
};

/* Take bytes from the front of in: how many, or -EPROTO, or -ENOMEM.  At most one frame is
 * returned; its payload is valid until the next call. */
[[nodiscard]] ssize_t kernel_frame_read(struct kernel_frame_reader *r, const uint8_t *in, size_t n,
					struct kernel_frame *ret);
void kernel_frame_reader_fini(struct kernel_frame_reader *r);
[[nodiscard]] int kernel_frame_append(struct buf *b, char type, struct slice payload);
#endif
