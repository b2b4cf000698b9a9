/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_HTTP_MULTIPART_H
#define CAY_HTTP_MULTIPART_H
/*
 * multipart - read multipart/form-data (RFC 7578) as it arrives
 *
 *	while ((r = multipart_next(&m, &in, &ev, &err)) > MULTIPART_MORE)
 *		...MULTIPART_PART, MULTIPART_DATA..., MULTIPART_PART_END
 *
 * The caller passes input in any pieces and pulls events; not calling is back-pressure.  Line ends
 * are CR LF, a part has one Content-Disposition, and the text after the last boundary is ignored.
 * Bounded: the head of a part, and one boundary.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_HEAD_MAX KIB(16)
#define MULTIPART_NAME_MAX 4096

enum multipart_event { MULTIPART_MORE, MULTIPART_PART, MULTIPART_DATA, MULTIPART_PART_END };

struct multipart {
	char mark[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF -- boundary */
	size_t n_mark;
	unsigned state;
	struct buf held; /* not consumed yet: a head, or what may begin a boundary */
	size_t handed;   /* bytes of held that the last event pointed to */
	char name[MULTIPART_NAME_MAX + 1], file[MULTIPART_NAME_MAX + 1]; /* of the part */
	bool has_file;
};

/* Content-Type with its boundary. */
[[nodiscard]] int multipart_init(struct multipart *m, struct slice type, struct cay_err *err);
void multipart_fini(struct multipart *m);
/* Consume *in up to one event; *ret is data, valid until the next call. */
[[nodiscard]] int multipart_next(struct multipart *m, struct slice *in, struct slice *ret,
				 struct cay_err *err);
/* Whether the last boundary was read. */
bool multipart_is_complete(const struct multipart *m);
#endif
