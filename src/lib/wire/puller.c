/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/puller.h"

#include <string.h>

static_assert(sizeof(struct puller_request) == 24 + REFERENCE_MAX + 1);
static_assert(sizeof(struct puller_reply) == 32);

const struct puller_failure_row puller_failures[PULLER_FAILURES] = {
	[PULLER_OK] = { CAY_E_INTERNAL, "no failure" },
	[PULLER_TOO_LARGE] = { CAY_E_TOO_LARGE, "the image is larger than images.pull_size" },
	[PULLER_DISK_FULL] = { CAY_E_DISK_FULL, "the disk is full" },
	[PULLER_CREDENTIALS] = { CAY_E_FORBIDDEN, "the registry rejected the credentials" },
	[PULLER_DENIED] = { CAY_E_FORBIDDEN, "the registry denied access" },
	[PULLER_UNKNOWN] = { CAY_E_NOT_FOUND, "the registry has no such image" },
	[PULLER_PLATFORM] = { CAY_E_NOT_FOUND, "the registry has no image for this architecture" },
	[PULLER_MANIFEST] = { CAY_E_UNAVAILABLE, "the registry sent no valid manifest" },
	[PULLER_UNREACHABLE] = { CAY_E_UNAVAILABLE,
				 "cannot reach the registry, or it is not a registry" },
	[PULLER_BROKEN] = { CAY_E_INTERNAL, "cay-pull cannot run skopeo; see its log" },
};

/* A text that fills its place with zeros: one spelling for each reference. */
static int puller_reference_check(const char text[static REFERENCE_MAX + 1], struct reference *ret)
{
	size_t n = strnlen(text, REFERENCE_MAX + 1);

	if (n > REFERENCE_MAX)
		return -EINVAL;
	for (size_t i = n; i <= REFERENCE_MAX; i++)
		if (text[i])
			return -EINVAL;
	return reference_parse((struct slice){ text, n }, ret);
}

int puller_request_check(const struct puller_request *q, size_t n, unsigned n_fds,
			 struct reference *ret)
{
	if (n != sizeof(*q) || n_fds != 1 || q->magic != PULLER_MAGIC || q->zero ||
	    q->insecure > 1 || !q->file_max || q->file_max > PULLER_FILE_MAX)
		return -EINVAL;
	return puller_reference_check(q->reference, ret);
}

int puller_reply_check(const struct puller_reply *a, size_t n, unsigned n_fds)
{
	if (n != sizeof(*a) || a->magic != PULLER_MAGIC || a->bytes > INT64_MAX ||
	    a->total > INT64_MAX)
		return -EINVAL;
	if (a->kind < PULLER_PROGRESS || a->kind > PULLER_FAILED)
		return -EINVAL;
	if (n_fds != (a->kind == PULLER_DONE))
		return -EINVAL;
	if (a->failure >= PULLER_FAILURES || !a->failure != (a->kind != PULLER_FAILED))
		return -EINVAL;
	return 0;
}
