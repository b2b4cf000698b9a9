/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_PACKAGE_HOSTS_H
#define CAY_EGRESS_PACKAGE_HOSTS_H
/*
 * package-hosts - the hosts that the configuration of package clients names
 *
 * Of a file only the members are read that say where packages come from; all else is skipped, as
 * is what cannot be understood.  Of a URL nothing is kept but host and port: its user, password,
 * path and query may be secrets.  Pure.
 */
#include "base/str.h"
#include "egress/host-name.h"

#define PACKAGE_FILE_MAX KIB(256)

enum package_syntax {
	PACKAGE_APT_LIST,    /* deb [options] URL suite component */
	PACKAGE_APT_SOURCES, /* deb822: URIs, of stanzas that are enabled */
	PACKAGE_PIP,         /* pip.conf */
	PACKAGE_NPM,         /* npmrc: registry, @scope:registry */
	PACKAGE_TOML,        /* of cargo and uv */
	PACKAGE_GO,          /* the file of go env: GOPROXY */
	PACKAGE_MAVEN,       /* settings.xml: url */
	PACKAGE_WORDS,       /* the value of a variable: URLs with spaces between them */
	PACKAGE_PROXIES,     /* the value of GOPROXY */
	PACKAGE_SYNTAX_NUM
};

struct package_host {
	char host[HOST_NAME_MAX_LEN + 1]; /* a name in lower case, or an IPv4 address */
	uint16_t port;                    /* 0: no rule can name the host of this URL */
	unsigned line;                    /* from 1 */
};

/* Other than 0 ends the reading, and is returned. */
typedef int package_host_fn(void *arg, const struct package_host *h);
int package_hosts_read(enum package_syntax syntax, struct slice text, package_host_fn *fn,
		       void *arg);
#endif
