/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer - what a sandbox asks of DNS
 *
 * A name that its policy denies on every port does not exist, and no name server is asked.  Of one
 * that may be connected to the answer is its synthetic address, once a name server has said that
 * the name exists; where the policy asks first, no name server is asked before the answer, and
 * about sandboxes of the group none ever is.  There are no IPv6 addresses and no other records.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "egress/dns-message.h"
#include "egress/egress.h"

#define ANSWER_TTL_S 300
#define QUESTION_BATCH 32 /* before others get their turn */

/* Where a question came from, and where it was sent to. */
struct question_route {
	struct question_conn *conn; /* over TCP; else */
	struct sockaddr_in from;
	struct in_addr to;
};

struct pending_question {
	struct egress_sandbox *sandbox;
	struct question_route route;
	struct dns_question question;
};

/* From the address that was asked: a client drops what comes from another. */
static void question_send(const struct egress_sandbox *sb, const struct question_route *route,
			  const uint8_t *p, size_t n)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo))] = {};
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct sockaddr_in to = route->from;
	struct msghdr h = { .msg_name = &to,
			    .msg_namelen = sizeof(to),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	struct in_pktinfo info = { .ipi_spec_dst = route->to };
	int fd = egress_sandbox_fd(sb, STEER_UDP);

	c->cmsg_level = IPPROTO_IP;
	c->cmsg_type = IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(c), &info, sizeof(info));
	if (fd >= 0)
		(void)sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL); /* a client asks again */
}

static void question_answer(const struct egress_sandbox *sb, const struct question_route *route,
			    const struct dns_question *q, const struct dns_answer *a)
{
	uint8_t out[DNS_ANSWER_MAX];
	ssize_t n = dns_answer_write(q, a, out, sizeof(out));

	if (route->conn)
		question_conn_answer(route->conn, out, n > 0 ? (size_t)n : 0);
	else if (n > 0)
		question_send(sb, route, out, (size_t)n);
}

static void on_question_resolved(void *arg, const struct resolved *what)
{
	struct pending_question *p = arg;
	struct egress_sandbox *sb = p->sandbox;
	struct dns_answer a = { .rcode = DNS_SERVFAIL };
	const size_t n_names = sb->names.n;

	sb->n_questions--;
	if (what->outcome == RESOLVE_NO_NAME)
		a.rcode = DNS_NXDOMAIN;
	else if (what->outcome == RESOLVE_NO_ADDRESS)
		a.rcode = DNS_NOERROR;
	else if (what->outcome == RESOLVED &&
		 name_table_add(&sb->names, &p->question.name, &a.address) >= 0)
		a = (struct dns_answer){ .address = a.address, .ttl = ANSWER_TTL_S };
	if (sb->names.n > n_names)
		name_file_add(sb, &p->question.name);
	if (!sb->gone)
		question_answer(sb, &p->route, &p->question, &a);
	else if (p->route.conn)
		question_conn_answer(p->route.conn, NULL, 0);
	free(p);
	egress_sandbox_release(sb);
}

static void question_resolve(struct egress_sandbox *sb, const struct question_route *route,
			     const struct dns_question *q)
{
	struct dns_answer failed = { .rcode = DNS_SERVFAIL };
	struct pending_question *p =
		sb->n_questions < SANDBOX_QUESTIONS_MAX ? malloc(sizeof(*p)) : NULL;

	if (!p) {
		question_answer(sb, route, q, &failed);
		return;
	}
	*p = (struct pending_question){ sb, *route, *q };
	egress_sandbox_hold(sb);
	sb->n_questions++;
	if (egress_leaves_name_to_proxy(sb->egress, &q->name)) {
		on_question_resolved(p, &(struct resolved){ .outcome = RESOLVED });
		return;
	}
	if (resolve_start(sb, &q->name, on_question_resolved, p) < 0) {
		sb->n_questions--;
		free(p);
		question_answer(sb, route, q, &failed);
		egress_sandbox_release(sb);
	}
}

/* Whether it exists is found out when it is connected to. */
static void question_answer_unresolved(struct egress_sandbox *sb,
				       const struct question_route *route,
				       const struct dns_question *q)
{
	struct dns_answer a = { .ttl = ANSWER_TTL_S };
	const size_t n_names = sb->names.n;

	if (name_table_add(&sb->names, &q->name, &a.address) < 0)
		a = (struct dns_answer){ .rcode = DNS_SERVFAIL };
	if (sb->names.n > n_names)
		name_file_add(sb, &q->name);
	question_answer(sb, route, q, &a);
}

static void question_deny(struct egress_sandbox *sb, const struct question_route *route,
			  const struct dns_question *q)
{
	struct slice policy = { sb->policy.data, sb->policy.len };
	struct dns_answer a = { .rcode = DNS_NXDOMAIN, .blocked = "egress policy" };
	struct decision d = { .sandbox = sb,
			      .op = "name",
			      .outcome = "deny",
			      .name = q->name.text,
			      .port = 443,
			      .verdict = egress_judge_name(policy, &q->name, 443) };

	decision_log_add_denial(sb, &d);
	question_answer(sb, route, q, &a);
}

static void question_handle(struct egress_sandbox *sb, const struct question_route *route,
			    const struct dns_question *q)
{
	struct slice policy = { sb->policy.data, sb->policy.len };
	struct host_name name;
	enum egress_action action = egress_judge_name_on_any_port(policy, &q->name);
	struct slice label;
	uint32_t address;
	bool known;

	if (q->type == DNS_PTR && dns_name_is_reverse(&q->name, &address)) {
		known = name_table_find_address(&sb->names, address, &name);
		question_answer(sb, route, q,
				&(struct dns_answer){ .rcode = known ? DNS_NOERROR : DNS_NXDOMAIN,
						      .points_to = known ? &name : NULL,
						      .ttl = ANSWER_TTL_S });
	} else if (action == EGRESS_DENY) {
		question_deny(sb, route, q);
	} else if (q->type == DNS_A &&
		   (action == EGRESS_ASK || host_name_is_of_group(&q->name, &label))) {
		question_answer_unresolved(sb, route, q);
	} else if (q->type == DNS_A) {
		question_resolve(sb, route, q);
	} else {
		question_answer(sb, route, q, &(struct dns_answer){ .rcode = DNS_NOERROR });
	}
}

/* -EAGAIN: there is none. */
static ssize_t question_receive(const struct egress_sandbox *sb, uint8_t *p, size_t max,
				struct question_route *ret)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo))];
	struct iovec iov = { p, max };
	struct msghdr h = { .msg_name = &ret->from,
			    .msg_namelen = sizeof(ret->from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(egress_sandbox_fd(sb, STEER_UDP), &h, MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			ret->to = info.ipi_addr;
		}
	return h.msg_flags & MSG_TRUNC ? 0 : n;
}

/* False: there is none, and no answer. */
static bool question_take(struct egress_sandbox *sb, const struct question_route *route,
			  const uint8_t *p, size_t n)
{
	struct dns_question q;
	int r = -EAGAIN;

	if (pace_take(&sb->question_pace, clk_boot_ns(sb->egress->clk), SANDBOX_QUESTIONS_PER_S,
		      SANDBOX_QUESTIONS_BURST))
		r = dns_question_read(p, n, &q);
	if (r > 0)
		question_answer(sb, route, &q, &(struct dns_answer){ .rcode = (enum dns_rcode)r });
	else if (r == 0)
		question_handle(sb, route, &q);
	return r >= 0;
}

void egress_sandbox_answer_questions(struct egress_sandbox *sb)
{
	for (unsigned i = 0; i < QUESTION_BATCH && egress_sandbox_fd(sb, STEER_UDP) >= 0; i++) {
		uint8_t in[DNS_PAYLOAD];
		struct question_route route = {};
		ssize_t n = question_receive(sb, in, sizeof(in), &route);

		if (n < 0)
			return;
		(void)question_take(sb, &route, in, (size_t)n);
	}
}

void egress_sandbox_answer_question(struct egress_sandbox *sb, struct question_conn *c,
				    const uint8_t *p, size_t n)
{
	const struct question_route route = { .conn = c };

	if (sb->gone || !question_take(sb, &route, p, n))
		question_conn_answer(c, NULL, 0);
}
