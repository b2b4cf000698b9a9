/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_CLIENT_HELLO_H
#define CAY_EGRESS_CLIENT_HELLO_H
/*
 * client-hello - the first message of a TLS client, from as much of it as has been received
 *
 * Call it with all bytes of the connection so far until it returns something other than
 * CLIENT_HELLO_MORE; no state is kept between the calls.  The message may be split over records and
 * segments at any byte.  Lengths must agree to the byte: a server that reads it in another way sees
 * another name.  Pure.
 */
#include "egress/host-name.h"

#define CLIENT_HELLO_MAX KIB(16) /* of the connection, with the heads of records */

enum client_hello_result {
	CLIENT_HELLO_MORE,
	CLIENT_HELLO_DONE,
	CLIENT_HELLO_NOT_TLS,
	CLIENT_HELLO_MALFORMED, /* or it exceeds CLIENT_HELLO_MAX */
};

enum client_hello_sni {
	CLIENT_HELLO_SNI_ABSENT,
	CLIENT_HELLO_SNI_INVALID, /* it is no host name: an address, a dot at the end */
	CLIENT_HELLO_SNI_PRESENT,
};

struct client_hello {
	enum client_hello_sni sni;
	struct host_name name; /* if present */
	bool has_ech;          /* extension 0xfe0d: another name may be encrypted in it */
};

/* ret is filled by CLIENT_HELLO_DONE alone. */
enum client_hello_result client_hello_read(const uint8_t *p, size_t n, struct client_hello *ret);
#endif
