/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_BROKER_MESSAGE_H
#define CAY_WIRE_BROKER_MESSAGE_H
/* broker-message - the connections that cay-egress gives to cay-broker
 *
 * cay-egress connects to BROKER_FLOW_SOCKET and sends one record for each connection of a sandbox
 * that is inspected, with two descriptors: one end of a stream socketpair, which carries requests
 * and replies, and a TCP socket that is connected to the host.  cay-egress closes its own copies of
 * both.  cay-broker returns no message.  A record that is not valid ends the connection it came on,
 * and its descriptors are closed.
 *
 * On the pair cay-egress writes requests of HTTP/1.1, one after the other, with the host of the
 * record in Host.  It answers "Expect: 100-continue" itself; the header is not passed on.
 * cay-broker does TLS with the host, whose certificate must be for the name in the record, and
 * writes the replies.  Their framing is Content-Length or chunked, also if the host ends a body by
 * closing. After a 101 to a request for WebSocket the pair carries bytes.  The end of the pair
 * cancels a request that has no complete reply.  When a reply says "Connection: close", or the host
 * has left between two requests, the pair ends: the next request needs another record.
 *
 * What fails before a reply has begun is a reply of its own: status 502, text/plain with the reason
 * in words, the header BROKER_REASON_HEADER with one of the words below, and then the end.  A reply
 * of the host never has that header.  Failures after a reply has begun end the pair inside it.
 *
 * SEQPACKET messages of this machine's byte order. */
#include "base/id.h"

#define BROKER_DIR "broker" /* in paths.run and in paths.state */
#define BROKER_FLOW_SOCKET BROKER_DIR "/flow.sock"
#define BROKER_MAGIC UINT32_C(0x42594143) /* "CAYB" */
#define BROKER_ABI 1
#define BROKER_HOST_SIZE 256
#define BROKER_CREDENTIAL_SIZE 64
#define BROKER_REASON_HEADER "Cay-Reason"

/* Words of BROKER_REASON_HEADER. */
#define BROKER_WHY_CERTIFICATE "certificate" /* not for this name, expired, or of no known CA */
#define BROKER_WHY_HANDSHAKE "handshake"     /* the host does not speak TLS, or not in time */
#define BROKER_WHY_CLOSED "closed"           /* the host left before it had replied */
#define BROKER_WHY_TIMEOUT "timeout"         /* no reply in time */
#define BROKER_WHY_REPLY "reply"             /* the reply is not HTTP/1.1, or cannot be passed on */
#define BROKER_WHY_REQUEST "request"         /* the request is not for this host, or not HTTP */
#define BROKER_WHY_CREDENTIAL "credential"   /* there is none, or not for this host */
#define BROKER_WHY_BUSY "busy"               /* too many connections */

/* The fds that come with a record, in this order. */
enum broker_fd { BROKER_FD_PAIR, BROKER_FD_HOST, BROKER_NUM_FDS };

struct broker_record {
	uint32_t magic;
	uint16_t abi;
	uint16_t port;
	struct id sandbox;
	struct id tenant;
	char host[BROKER_HOST_SIZE];             /* the name that was dialled, in lower case */
	char credential[BROKER_CREDENTIAL_SIZE]; /* "": none */
};
static_assert(sizeof(struct broker_record) == 360);

/* Credentials have names like templates: letters, digits, '.', '_' and '-', 1 to 63 bytes. */
bool broker_credential_name_is_valid(struct slice name);
/* A record with magic and ABI; -EINVAL when the host or the credential cannot be a name. */
[[nodiscard]] int broker_record_init(struct broker_record *ret, const struct id *sandbox,
				     const struct id *tenant, struct slice host, uint16_t port,
				     struct slice credential);
/* n bytes and n_fds fds that came: -EPROTO unless they are one valid record. */
[[nodiscard]] int broker_record_check(const void *msg, size_t n, unsigned n_fds);
#endif
