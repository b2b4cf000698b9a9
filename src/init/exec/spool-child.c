/* SPDX-License-Identifier: Apache-2.0 */
/* The spooler: writes and reads the files of outputs in blocking code */
#include <assert.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "init/exec/exec-child.h"
#include "init/exec/exec.h"
#include "init/exec/spool-internal.h"

struct spool_packet {
	struct spool_msg head;
	uint8_t bytes[SPOOL_PIECE];
};

/* Closing a descriptor on these file systems does not contact a server. */
static bool spool_file_closes_locally(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	switch ((uint32_t)fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case OVERLAYFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return true;
	default:
		return false;
	}
}

/* If PID 1 is gone the spooler ends. */
static void spooler_send_message(int socket, const struct spool_msg *m, const void *bytes, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec parts[2] = {
		{ (void *)(uintptr_t)m, sizeof(*m) },
		{ (void *)(uintptr_t)bytes, bytes ? m->n : 0 },
	};
	struct msghdr msg = { .msg_iov = parts, .msg_iovlen = 2 };

	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		*CMSG_FIRSTHDR(&msg) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
							 .cmsg_level = SOL_SOCKET,
							 .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(fd));
	}
	if (sendmsg(socket, &msg, MSG_NOSIGNAL) < 0)
		_exit(1);
}

static int spooler_open_file(void)
{
	static const char *const places[] = { "/tmp", "/var/tmp" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

		if (fd >= 0)
			return fd;
	}
	return -errno;
}

static struct spool *spooler_find_file(struct spool *first, uint64_t id)
{
	while (first && (first->id != id || first->fd < 0))
		first = first->next;
	return first;
}

/* Create the file with the first bytes of an output. */
static struct spool *spooler_add_file(int socket, struct spool **first, uint64_t id)
{
	struct spool_msg reply = { .type = SPOOL_OPENED, .id = id };
	struct spool *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct spool){ .next = *first, .id = id, .fd = spooler_open_file() };
	if (s->fd < 0) {
		free(s);
		return NULL;
	}
	*first = s;
	spooler_send_message(socket, &reply, NULL,
			     spool_file_closes_locally(s->fd) ? s->fd : -EBADF);
	return s;
}

static void spooler_write_piece(int socket, struct spool **first, const struct spool_packet *p)
{
	struct spool_msg reply = { .type = SPOOL_WROTE, .id = p->head.id, .pos = p->head.pos };
	struct spool *s = spooler_find_file(*first, p->head.id);
	size_t done = 0;

	if (!s)
		s = spooler_add_file(socket, first, p->head.id);
	while (s && done < p->head.n) {
		ssize_t w = pwrite(s->fd, p->bytes + done, p->head.n - done, (off_t)reply.pos);

		if (w <= 0)
			break;
		done += (size_t)w;
		reply.pos += (size_t)w;
	}
	if (done)
		spooler_send_message(socket, &reply, NULL, -EBADF);
	reply.type = SPOOL_FAILED;
	if (done < p->head.n)
		spooler_send_message(socket, &reply, NULL, -EBADF);
}

static void spooler_read_piece(int socket, struct spool *s, struct spool_packet *p)
{
	ssize_t n = s ? pread(s->fd, p->bytes, p->head.n, (off_t)p->head.pos) : 0;

	p->head.type = SPOOL_DATA;
	p->head.n = n > 0 ? (uint32_t)n : 0;
	spooler_send_message(socket, &p->head, p->bytes, -EBADF);
}

static void spooler_close_file(struct spool **first, uint64_t id)
{
	while (*first && (*first)->id != id)
		first = &(*first)->next;
	if (*first) {
		struct spool *gone = *first;

		*first = gone->next;
		(void)close(gone->fd);
		free(gone);
	}
}

/* The lowest descriptor from here on that is kept; the socket is one of them. */
static unsigned spooler_next_kept_fd(const struct spool *first, unsigned socket, unsigned from)
{
	unsigned lowest = socket >= from ? socket : ~0u;

	for (; first; first = first->next)
		if (first->fd >= 0 && (unsigned)first->fd >= from && (unsigned)first->fd < lowest)
			lowest = (unsigned)first->fd;
	return lowest;
}

/* PID 1's other descriptors would keep pipes and connections open. */
static void spooler_close_other_fds(const struct spool *first, int socket)
{
	unsigned from = STDERR_FILENO + 1, kept;

	do {
		kept = spooler_next_kept_fd(first, (unsigned)socket, from);
		if (kept > from &&
		    syscall(SYS_close_range, from, kept == ~0u ? kept : kept - 1, 0) < 0)
			_exit(1);
		from = kept + 1;
	} while (kept != ~0u);
}

void child_spooler_run(struct init *in, int socket, int cgroup)
{
	static struct spool_packet p; /* of a process of its own, so not shared */
	struct spool *first = in->spools.first;

	assert(socket >= 0);
	(void)prctl(PR_SET_NAME, "cay-spool");
	(void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit fails instead */
	if (helper_child_setup(cgroup) < 0)
		_exit(1);
	spooler_close_other_fds(first, socket);
	exec_free_rings(in);
	spooler_send_message(socket, &(struct spool_msg){ .type = SPOOL_READY }, NULL, -EBADF);
	for (;;) {
		ssize_t n = recv(socket, &p, sizeof(p), 0);

		if (n < (ssize_t)sizeof(p.head))
			_exit(0);
		if (p.head.type == SPOOL_WRITE)
			spooler_write_piece(socket, &first, &p);
		else if (p.head.type == SPOOL_READ)
			spooler_read_piece(socket, spooler_find_file(first, p.head.id), &p);
		else
			spooler_close_file(&first, p.head.id);
	}
}
