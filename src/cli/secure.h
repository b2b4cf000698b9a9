/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SECURE_H
#define CAY_CLI_SECURE_H
/*
 * secure - TLS over a connected socket, as a client; OpenSSL
 *
 * TLS 1.2 and 1.3.  The other side's certificate must lead to somebody who is believed
 * and be for the host that was asked for: by name, or by an IP address of its own when
 * the host is one.  There is no way to leave that out.
 *
 * Nothing blocks: what OpenSSL waits for is told by secure_events(), and bytes it holds
 * already, which poll() cannot see, by secure_ready().
 */
#include <sys/types.h>

#include "base/err.h"
#include "cli/url.h"

/* Who is believed: made once, used by every connection. */
struct secure_trust;
struct secure;

/* ca: a file of certificates (PEM), or "": those of the system. */
[[nodiscard]] int secure_trust_new(const char *ca, struct secure_trust **ret, struct cay_err *err);
void secure_trust_free(struct secure_trust *t);

/* fd is the caller's and does not block. */
[[nodiscard]] int secure_new(const struct secure_trust *t, int fd, const struct url *to,
			     struct secure **ret, struct cay_err *err);
/* NULL is fine.  Says goodbye when that does not block. */
void secure_free(struct secure *s);

/* Why there is no secure connection; dial.c has the hints. */
enum secure_why {
	SECURE_OTHER,
	SECURE_PLAIN,   /* what answered is not TLS */
	SECURE_UNKNOWN, /* signed by nobody who is believed */
	SECURE_EXPIRED,
	SECURE_EARLY, /* not valid yet */
	SECURE_NAME,  /* for other hosts */
	SECURE_NUM_WHYS
};

/* 0: it stands; -EAGAIN: after secure_events(). */
[[nodiscard]] int secure_shake(struct secure *s, enum secure_why *ret_why, struct cay_err *err);
/* Bytes moved; 0: the other side said it ends; -EAGAIN; -ECONNRESET: it just ended. */
[[nodiscard]] ssize_t secure_read(struct secure *s, void *to, size_t n);
[[nodiscard]] ssize_t secure_write(struct secure *s, const void *from, size_t n);
/* What the last call that had -EAGAIN waits for. */
short secure_events(const struct secure *s);
bool secure_ready(const struct secure *s);
#endif
