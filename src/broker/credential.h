/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BROKER_CREDENTIAL_H
#define CAY_BROKER_CREDENTIAL_H
/*
 * credential - secrets of tenants, each for its own hosts
 *
 * The value is in the clear only here, and in the requests that it is set in.  A reply that is
 * being masked holds its credential, also when another value takes its place meanwhile.
 */
#include "auth/envelope.h"
#include "broker/mask.h"
#include "wire/credential-message.h"

#define CREDENTIALS_MAX 1024 /* of all tenants */

struct credential {
	unsigned refs;
	uint64_t round; /* of the last ALL that named it */
	struct id tenant;
	enum credential_kind kind;
	unsigned n_hosts;
	char name[CREDENTIAL_NAME_SIZE];
	char header[CREDENTIAL_HEADER_SIZE];
	char pattern[CREDENTIAL_PATTERN_SIZE];
	char hosts[CREDENTIAL_HOSTS_MAX][CREDENTIAL_HOST_SIZE];
	struct buf value;
	struct mask mask;
};

struct credentials {
	struct envelope_key key; /* private */
	uint64_t round;
	size_t n;
	struct credential *v[CREDENTIALS_MAX];
};

/* Of a valid PUT.  -EBADMSG: the value does not open; the credential is then forgotten. */
[[nodiscard]] int credentials_put(struct credentials *all, const struct credential_message *m);
void credentials_remove(struct credentials *all, const struct id *tenant, const char *name);
/* Forget those that were not put since round. */
void credentials_remove_all_but(struct credentials *all, uint64_t round);
/* The credential if this tenant has it and it is for this host; a reference for the caller.  NULL
 * otherwise, with why in words. */
struct credential *credentials_find(const struct credentials *all, const struct id *tenant,
				    const char *name, const char *host, const char **ret_why);
void credential_unref(struct credential *c); /* takes NULL */
/* The header that it sets: "Authorization" or its own; "" for QUERY. */
const char *credential_get_header(const struct credential *c);
/* "Authorization: Bearer ...\r\n"; nothing for QUERY, and for SIGV4, which sigv4.h writes. */
[[nodiscard]] int credential_header_write(const struct credential *c, struct buf *ret);
/* A target with the member of the query in place of any of that name; for others unchanged. */
[[nodiscard]] int credential_target_write(const struct credential *c, struct slice target,
					  struct buf *ret);
#endif
