/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_UPSTREAM_PROXY_H
#define CAY_EGRESS_UPSTREAM_PROXY_H
/*
 * upstream-proxy - the HTTP proxy by which a node reaches other hosts: the settings egress.proxy
 * and egress.no_proxy
 *
 * "http://proxy.corp.example:3128" or "http://192.0.2.7:3128", without a user: the credentials have
 * a file of their own.  egress.no_proxy lists targets as rules have them: a name, "*.NAME", or an
 * IPv4 network for connections that were dialled by address.  Pure.
 */
#include "egress/policy.h"

#define UPSTREAM_EXCEPT_MAX 64

struct upstream_proxy {
	bool set;
	struct egress_target at; /* a name, or a network of one address */
	uint16_t port;
	struct egress_target except[UPSTREAM_EXCEPT_MAX];
	size_t n_except;
};

/* "" for both: there is no proxy. */
[[nodiscard]] int upstream_proxy_parse(const char *proxy, const char *no_proxy,
				       struct upstream_proxy *ret, struct cay_err *err);
/* Whether a connection to this name, or to this address in host byte order, goes through it. */
bool upstream_proxy_has_name(const struct upstream_proxy *p, const struct host_name *name);
bool upstream_proxy_has_address(const struct upstream_proxy *p, uint32_t address);
#endif
