/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_MEM_H
#define CAY_BASE_MEM_H
/* mem - memory and fds are freed by the scope that declares them.  Initialise every cleanup
 * variable where it is declared (fds to -EBADF, 0 would be stdin).  Ownership moves only through
 * cay_take() and cay_take_fd(), or into a parent whose free function is documented. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define CAY_CLEANUP(fn) __attribute__((cleanup(fn)))
#define auto_free CAY_CLEANUP(cay_freep)
#define auto_close CAY_CLEANUP(cay_closep)
#define auto_ptr(T) CAY_CLEANUP(T##_freep) struct T *
#define CAY_DEFINE_FREEP(T, freefn) \
	static inline void T##_freep(struct T **p) \
	{ \
		freefn(*p); \
	}

/* Whether this is an ASan build, which needs system calls a filter would refuse. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAY_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define CAY_SANITIZED
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

static inline void cay_freep(void *p)
{
	void *ptr = *(void **)p;

	free(ptr);
}

/* Keeps errno, so that `return -errno` after a failure stays right. */
static inline void cay_closep(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	errno = saved;
}

#define cay_take(ptr) \
	({ \
		__typeof__(ptr) taken_ = (ptr); \
		(ptr) = NULL; \
		taken_; \
	})

static inline int cay_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -EBADF;
	return taken;
}
#endif
