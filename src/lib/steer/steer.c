/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/steer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#define LOOPBACK_INDEX 1 /* of lo, in every namespace */
#define BACKLOG 1024
#define LOOPBACK_NET UINT32_C(0x7f000000)
#define LOOPBACK_MASK UINT32_C(0xff000000)

/* rtnetlink */

struct steer_addr_request {
	struct nlmsghdr head;
	struct ifaddrmsg what;
	struct rtattr local_head;
	uint32_t local;
	struct rtattr address_head;
	uint32_t address;
};

struct steer_route_request {
	struct nlmsghdr head;
	struct rtmsg what;
	struct rtattr link_head;
	uint32_t link;
	struct rtattr source_head;
	uint32_t source;
};

static struct rtattr steer_attribute(unsigned short type)
{
	return (struct rtattr){ RTA_LENGTH(sizeof(uint32_t)), type };
}

static struct nlmsghdr steer_message(size_t size, unsigned short type)
{
	return (struct nlmsghdr){ .nlmsg_len = (uint32_t)size,
				  .nlmsg_type = type,
				  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE |
						 NLM_F_REPLACE };
}

/* Send a request and read the kernel's answer: 0, or -errno. */
static int steer_netlink_call(int fd, const void *request, size_t size)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr answer;
		char rest[256];
	} reply;
	ssize_t n;

	if (send(fd, request, size, 0) != (ssize_t)size)
		return -errno;
	n = recv(fd, &reply, sizeof(reply), 0);
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(reply.head) + sizeof(reply.answer) ||
	    reply.head.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return reply.answer.error;
}

static int steer_add_address(int fd, uint32_t address)
{
	struct steer_addr_request q = {
		.head = steer_message(sizeof(q), RTM_NEWADDR),
		.what = { .ifa_family = AF_INET,
			  .ifa_prefixlen = 32,
			  .ifa_scope = RT_SCOPE_HOST,
			  .ifa_index = LOOPBACK_INDEX },
		.local_head = steer_attribute(IFA_LOCAL),
		.local = htonl(address),
		.address_head = steer_attribute(IFA_ADDRESS),
		.address = htonl(address),
	};

	return steer_netlink_call(fd, &q, sizeof(q));
}

/* Without a source address of its own a connection would come from its destination. */
static int steer_add_route(int fd)
{
	struct steer_route_request q = {
		.head = steer_message(sizeof(q), RTM_NEWROUTE),
		.what = { .rtm_family = AF_INET,
			  .rtm_table = RT_TABLE_LOCAL,
			  .rtm_protocol = RTPROT_STATIC,
			  .rtm_scope = RT_SCOPE_HOST,
			  .rtm_type = RTN_LOCAL },
		.link_head = steer_attribute(RTA_OIF),
		.link = LOOPBACK_INDEX,
		.source_head = steer_attribute(RTA_PREFSRC),
		.source = htonl(STEER_OWN),
	};

	return steer_netlink_call(fd, &q, sizeof(q));
}

static int steer_add_routes(struct cay_err *err)
{
	auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int r;

	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open rtnetlink");
	r = steer_add_address(fd, STEER_SERVICE);
	if (r >= 0)
		r = steer_add_address(fd, STEER_OWN);
	if (r >= 0)
		r = steer_add_route(fd);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "add routes of a sandbox") : 0;
}

/* Sockets */

static int steer_open_socket(int type, uint16_t port, int *ret)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(STEER_SERVICE),
				  .sin_port = htons(port) };
	auto_close int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, room = STEER_SOCKET_BYTES;

	/* a repeated attach binds beside the sockets of the one before */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) < 0 ||
	    (type == SOCK_DGRAM && setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) < 0) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return -errno;
	*ret = cay_take_fd(&fd);
	return 0;
}

/* BPF */

static int steer_bpf(int command, union bpf_attr *attr)
{
	int r = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	return r < 0 ? -errno : r;
}

/* The two sockets by enum steer_fd. */
static int steer_open_map(const int fds[static STEER_NUM])
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_SOCKMAP,
				.key_size = sizeof(uint32_t),
				.value_size = sizeof(uint64_t),
				.max_entries = STEER_LINK };
	auto_close int map = steer_bpf(BPF_MAP_CREATE, &attr);
	int r = map;

	for (uint32_t i = STEER_TCP; r >= 0 && i < STEER_LINK; i++) {
		uint64_t value = (uint64_t)fds[i];

		attr = (union bpf_attr){ .map_fd = (uint32_t)map,
					 .key = (uintptr_t)&i,
					 .value = (uintptr_t)&value };
		r = steer_bpf(BPF_MAP_UPDATE_ELEM, &attr);
	}
	return r < 0 ? r : cay_take_fd(&map);
}

#define INSN(code_, dst, src, off_, imm_) \
	(struct bpf_insn) \
	{ \
		.code = (code_), .dst_reg = (dst), .src_reg = (src), .off = (off_), .imm = (imm_) \
	}
#define LOAD(dst, member) \
	INSN(BPF_LDX | BPF_MEM | BPF_W, dst, BPF_REG_6, offsetof(struct bpf_sk_lookup, member), 0)
#define MOVE(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, value) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define AND(dst, value) INSN(BPF_ALU | BPF_AND | BPF_K, dst, 0, 0, (int)(value))
/* on 32 bits: a value with its highest bit set is not extended */
#define JUMP_IF(op, reg, value, insns) INSN(BPF_JMP32 | (op) | BPF_K, reg, 0, insns, (int)(value))
#define CALL(function) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT() INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define RETURN(verdict) SET(BPF_REG_0, verdict), EXIT()
#define KEY_AT (-4) /* on the stack */

/*
 *	if not IPv4, or to 127.0.0.0/8, or to STEER_OWN: pass
 *	TCP: key = STEER_TCP;  UDP to port 53: key = STEER_UDP;  else pass
 *	assign the socket that the map has under the key; drop if there is none
 */
static int steer_load_program(int map)
{
	const struct bpf_insn insns[] = {
		MOVE(BPF_REG_6, BPF_REG_1),
		LOAD(BPF_REG_2, family),
		JUMP_IF(BPF_JNE, BPF_REG_2, AF_INET, 6),
		LOAD(BPF_REG_2, local_ip4),
		JUMP_IF(BPF_JEQ, BPF_REG_2, htonl(STEER_OWN), 4),
		AND(BPF_REG_2, htonl(LOOPBACK_MASK)),
		JUMP_IF(BPF_JEQ, BPF_REG_2, htonl(LOOPBACK_NET), 2),
		LOAD(BPF_REG_2, protocol),
		INSN(BPF_JMP | BPF_JA, 0, 0, 2, 0),
		RETURN(SK_PASS),
		SET(BPF_REG_3, STEER_TCP),
		JUMP_IF(BPF_JEQ, BPF_REG_2, IPPROTO_TCP, 6),
		SET(BPF_REG_3, STEER_UDP),
		LOAD(BPF_REG_4, local_port),
		JUMP_IF(BPF_JNE, BPF_REG_4, STEER_DNS_PORT, 1),
		JUMP_IF(BPF_JEQ, BPF_REG_2, IPPROTO_UDP, 2),
		RETURN(SK_PASS),
		INSN(BPF_STX | BPF_MEM | BPF_W, BPF_REG_10, BPF_REG_3, KEY_AT, 0),
		INSN(BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		MOVE(BPF_REG_2, BPF_REG_10),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, KEY_AT),
		CALL(BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_0, 0, 2, 0),
		RETURN(SK_DROP),
		MOVE(BPF_REG_7, BPF_REG_0),
		MOVE(BPF_REG_1, BPF_REG_6),
		MOVE(BPF_REG_2, BPF_REG_7),
		/* instead of an earlier program's, and of no other that is bound beside it */
		SET(BPF_REG_3, BPF_SK_LOOKUP_F_REPLACE | BPF_SK_LOOKUP_F_NO_REUSEPORT),
		CALL(BPF_FUNC_sk_assign),
		MOVE(BPF_REG_8, BPF_REG_0),
		MOVE(BPF_REG_1, BPF_REG_7),
		CALL(BPF_FUNC_sk_release),
		SET(BPF_REG_0, SK_PASS),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_8, 0, 1, 0),
		SET(BPF_REG_0, SK_DROP),
		EXIT(),
	};
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_SK_LOOKUP,
				.expected_attach_type = BPF_SK_LOOKUP,
				.insns = (uintptr_t)insns,
				.insn_cnt = sizeof(insns) / sizeof(insns[0]),
				.license = (uintptr_t)"Apache-2.0" };

	return steer_bpf(BPF_PROG_LOAD, &attr);
}

static int steer_open_link(const int fds[static STEER_NUM])
{
	auto_close int net = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	auto_close int map = net < 0 ? -errno : steer_open_map(fds);
	auto_close int program = map < 0 ? map : steer_load_program(map);
	union bpf_attr attr = { .link_create = { .prog_fd = (uint32_t)program,
						 .target_fd = (uint32_t)net,
						 .attach_type = BPF_SK_LOOKUP } };

	return program < 0 ? program : steer_bpf(BPF_LINK_CREATE, &attr);
}

int steer_attach(int ret[static STEER_NUM], struct cay_err *err)
{
	auto_close int tcp = -EBADF, udp = -EBADF;
	int r = steer_add_routes(err), link;

	if (r < 0)
		return r;
	r = steer_open_socket(SOCK_STREAM, STEER_PORT, &tcp);
	if (r >= 0)
		r = steer_open_socket(SOCK_DGRAM, STEER_DNS_PORT, &udp);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "open listeners in a sandbox");
	link = steer_open_link((const int[STEER_NUM]){ tcp, udp, -EBADF });
	if (link < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -link, "steer connections of a sandbox");
	ret[STEER_TCP] = cay_take_fd(&tcp);
	ret[STEER_UDP] = cay_take_fd(&udp);
	ret[STEER_LINK] = link;
	return 0;
}
