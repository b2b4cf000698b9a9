/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/puller-link.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/path.h"
#include "base/seqpacket.h"
#include "cayd/image/registry.h"

/* The authfile of this registry alone, in memory that does not change any more. */
static int puller_auth_create(const struct cayd *c, const struct id *owner,
			      const struct registry_auth *given, struct slice host,
			      struct cay_err *err)
{
	auto_buf auth = BUF_INIT(KIB(32));
	auto_close int fd =
		memfd_create("cay-auth", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	int r = registry_authfile_write(c, owner, given, host, &auth, err);

	if (r >= 0 &&
	    (fd < 0 || fd_write_all(fd, auth.data, auth.len) < 0 ||
	     fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0))
		r = cay_fail_sys(err, CAY_E_INTERNAL, errno, "write an authfile");
	buf_wipe(&auth);
	return r < 0 ? r : cay_take_fd(&fd);
}

static int puller_link_connect(const struct cayd *c, struct cay_err *err)
{
	int fd = seqpacket_connect(c->settings.run_dir, PULLER_SOCKET);

	if (fd >= 0)
		return fd;
	return cay_fail(err, CAY_E_UNAVAILABLE,
			fd == -EAGAIN ? "cay-pull is busy; try again"
				      : "cay-pull is not running; start it with "
					"'systemctl start cay-pull'");
}

int puller_link_open(const struct cayd *c, const char *reference, const struct id *owner,
		     const struct registry_auth *given, struct cay_err *err)
{
	struct puller_request q = { .magic = PULLER_MAGIC,
				    .file_max = c->settings.images_pull_max };
	auto_close int conn = -EBADF, auth = -EBADF;
	struct reference ref;
	int r = reference_parse(slice_of(reference), &ref);

	if (r < 0 || strlen(reference) > REFERENCE_MAX)
		return cay_fail(err, CAY_E_INVALID, "not a reference");
	memcpy(q.reference, reference, strlen(reference));
	q.insecure = registry_is_listed(c->settings.images_insecure, ref.host);
	conn = puller_link_connect(c, err);
	if (conn < 0)
		return conn;
	auth = puller_auth_create(c, owner, given, ref.host, err);
	if (auth < 0)
		return auth;
	r = seqpacket_send(conn, &q, sizeof(q), auth);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "cannot ask cay-pull");
	return cay_take_fd(&conn);
}

int puller_link_receive(int conn, struct puller_reply *ret, int *ret_fd)
{
	unsigned n_fds = 0;
	ssize_t n = seqpacket_receive(conn, ret, sizeof(*ret), ret_fd, &n_fds);
	int r = n < 0 ? (int)n : puller_reply_check(ret, (size_t)n, n_fds);

	if (r < 0)
		cay_closep(ret_fd);
	return r;
}
