/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_CREDENTIAL_STORE_H
#define CAY_CAYD_EGRESS_CREDENTIAL_STORE_H
/*
 * credential-store - the credentials of tenants, with values that only cay-broker can open
 *
 * db/credentials.json has them all and is replaced as a whole before anything else happens.  A
 * value is in an envelope for the key of cay-broker: cayd closes it when it is stored and cannot
 * open it.
 */
#include "cayd/core/cayd.h"
#include "wire/credential-message.h"

#define CREDENTIALS_OF_TENANT_MAX 64
#define CREDENTIAL_ENV_SIZE 64
#define CREDENTIAL_PLACEHOLDER_SIZE 32 /* "cay_cred_" and 22 characters */
#define CREDENTIAL_HINT_SIZE 5

struct credential_row {
	struct credential_message put; /* as cay-broker gets it */
	char env[CREDENTIAL_ENV_SIZE]; /* "": none */
	char placeholder[CREDENTIAL_PLACEHOLDER_SIZE];
	char hint[CREDENTIAL_HINT_SIZE]; /* the last characters of the value, of a long one */
	uint64_t changed_ns;
	uint64_t sent_in, opened_in; /* connections to cay-broker, by number */
};

/* Read the file; remove those of tenants that are gone. */
[[nodiscard]] int credential_store_open(struct cayd *c, struct cay_err *err);
[[nodiscard]] int credential_store_remove_of_deleted(struct cayd *c, struct cay_err *err);
size_t credential_store_count(const struct cayd *c);
struct credential_row *credential_store_get(const struct cayd *c, size_t i);
/* NULL when the tenant has none of that name. */
struct credential_row *credential_store_find(const struct cayd *c, const struct id *tenant,
					     struct slice name);
/* Without `ready`; it refers to the row and to hosts. */
struct credential_info credential_row_describe(const struct credential_row *row,
					       const char *hosts[static CREDENTIAL_HOSTS_MAX]);
/* All but the value; false: something does not fit. */
bool credential_row_fill(struct credential_row *row, const struct id *tenant,
			 const struct credential_info *info);
/* Durable when it returns; *ret is the row in the store. */
[[nodiscard]] int credential_store_put(struct cayd *c, const struct credential_row *row,
				       struct credential_row **ret, struct cay_err *err);
[[nodiscard]] int credential_store_remove(struct cayd *c, const struct credential_row *row,
					  struct cay_err *err);
#endif
