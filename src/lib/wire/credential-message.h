/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_CREDENTIAL_MESSAGE_H
#define CAY_WIRE_CREDENTIAL_MESSAGE_H
/* credential-message - the credentials that cayd gives to cay-broker
 *
 * cayd connects to CREDENTIAL_SOCKET.  Both send HELLO first; that of cay-broker has its public
 * key. cayd then sends ALL, a PUT for each credential and END: cay-broker forgets those that did
 * not come.  Afterwards it sends PUT for each change and GONE for each end.  cay-broker replies to
 * each PUT with APPLIED, or with CLOSED if the value does not open.
 *
 * cayd has the value of a credential in an envelope (auth/envelope.h) that only cay-broker opens.
 * Its purpose has all that says where the value goes, so neither the hosts nor the header of a
 * stored credential can be changed without the value.
 *
 * SEQPACKET messages of this machine's byte order, all of one size. */
#include "base/buf.h"
#include "base/id.h"

#define CREDENTIAL_DIR "credentials" /* in paths.run */
#define CREDENTIAL_SOCKET CREDENTIAL_DIR "/broker.sock"
#define CREDENTIAL_MAGIC UINT32_C(0x43594143) /* "CAYC" */
#define CREDENTIAL_ABI 1
#define CREDENTIAL_NAME_SIZE 64
#define CREDENTIAL_HEADER_SIZE 64
#define CREDENTIAL_PATTERN_SIZE 128
#define CREDENTIAL_HOSTS_MAX 16
#define CREDENTIAL_HOST_SIZE 256
#define CREDENTIAL_VALUE_MIN 8 /* shorter ones could not be masked in replies */
#define CREDENTIAL_VALUE_MAX 4096
#define CREDENTIAL_SEALED_MAX ((size_t)4224)
#define CREDENTIAL_PURPOSE_MAX KIB(8)

enum credential_message_kind {
	CREDENTIAL_MSG_HELLO = 1, /* number is CREDENTIAL_ABI; of cay-broker with its key */
	CREDENTIAL_MSG_ALL,
	CREDENTIAL_MSG_PUT,
	CREDENTIAL_MSG_GONE,
	CREDENTIAL_MSG_END,
	CREDENTIAL_MSG_APPLIED,
	CREDENTIAL_MSG_CLOSED,
	CREDENTIAL_MSG_NUM
};

/* In the order of credential_kinds in ops/schemas.c. */
enum credential_kind {
	CREDENTIAL_BEARER, /* Authorization: Bearer VALUE */
	CREDENTIAL_BASIC,  /* Authorization: Basic, base64 of VALUE, which is USER:PASSWORD */
	CREDENTIAL_HEADER, /* a header with the pattern, "{}" replaced by VALUE */
	CREDENTIAL_QUERY,  /* a member of the query */
	CREDENTIAL_SIGV4,  /* requests are signed; VALUE is KEY_ID:SECRET */
	CREDENTIAL_NUM_KINDS
};

struct credential_message {
	uint32_t magic;
	uint16_t kind;
	uint16_t number;
	uint64_t serial; /* of a PUT, and of its reply */
	struct id tenant;
	char name[CREDENTIAL_NAME_SIZE];
	uint16_t form; /* enum credential_kind */
	uint16_t n_hosts, n_sealed;
	uint16_t zero;
	char header[CREDENTIAL_HEADER_SIZE];   /* of HEADER and QUERY; of SIGV4 the scope */
	char pattern[CREDENTIAL_PATTERN_SIZE]; /* of HEADER */
	char hosts[CREDENTIAL_HOSTS_MAX][CREDENTIAL_HOST_SIZE];
	uint8_t key[32];
	uint8_t sealed[CREDENTIAL_SEALED_MAX];
};

struct credential_message credential_message_init(enum credential_message_kind kind);
/* n bytes that came from cayd or from cay-broker: -EPROTO unless they are one valid message. */
[[nodiscard]] int credential_message_check(const void *msg, size_t n, bool from_cayd);
/* The purpose of the envelope of a valid PUT. */
[[nodiscard]] int credential_purpose_write(const struct credential_message *m, struct buf *ret);

/* A name of a header that a credential may set. */
bool credential_header_is_valid(struct slice name);
/* Printable ASCII with one "{}". */
bool credential_pattern_is_valid(struct slice pattern);
/* "REGION/SERVICE" */
bool credential_scope_is_valid(struct slice scope);
/* NULL, or why this cannot be the value of such a credential. */
const char *credential_value_refusal(enum credential_kind kind, struct slice value);
#endif
