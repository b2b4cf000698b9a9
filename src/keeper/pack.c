/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "archive/layer-walk.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/path.h"
#include "base/seqpacket.h"
#include "keeper/keeper-sandbox.h"
#include "keeper/overlay.h"
#include "unpack/packer.h"

/*
 * A confined child reads the layer and writes the fd of cayd (unpack/packer.h).  Root opens two
 * directories, reads two attributes of each fd that it is sent, and checks the report.
 */
#define PACK_DEADLINE_NS (600 * NS_PER_S)

/* The kernel writes no other value of the first, and the second only with an option that is off. */
static uint8_t pack_read_dir_flags(int dir)
{
	char opaque[2];
	ssize_t n = fgetxattr(dir, "trusted.overlay.opaque", opaque, sizeof(opaque));
	uint8_t flags = n == 1 && opaque[0] == 'y' ? LAYER_OPAQUE : 0;

	if (n < 0 ? errno != ENODATA : !flags)
		return PACKER_FLAGS_FAILED;
	if (fgetxattr(dir, "trusted.overlay.redirect", NULL, 0) >= 0)
		flags |= LAYER_MOVED;
	return flags;
}

static int pack_wait(int sock, uint64_t end, struct cay_err *err)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	uint64_t now = clk_boot_ns(&clk_system);
	int r = now >= end ? 0 : poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1);

	if (r < 0 && errno != EINTR)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot wait for the packer");
	return r ? 0
		 : cay_fail(err, CAY_E_TIMEOUT, "packing took longer than %d s",
			    (int)(PACK_DEADLINE_NS / NS_PER_S));
}

/* Answer its questions until it reports.  It may be taken over: a message without an fd
 * is a report, and an answer that it does not read ends it. */
static int pack_serve_child(int sock, struct cay_err *err)
{
	uint64_t end = clk_boot_ns(&clk_system) + PACK_DEADLINE_NS;

	for (;;) {
		struct confined_report report = {};
		unsigned n_fds = 0;
		int dir = -EBADF, r = pack_wait(sock, end, err);
		ssize_t n;

		if (r < 0)
			return r;
		n = seqpacket_receive(sock, &report, sizeof(report), &dir, &n_fds);
		if (n == -EAGAIN)
			continue;
		if (n_fds == 1) {
			uint8_t flags = pack_read_dir_flags(dir);

			cay_closep(&dir);
			if (seqpacket_send(sock, &flags, 1, -EBADF) >= 0)
				continue;
		}
		if (n != (ssize_t)sizeof(report) || n_fds)
			return cay_fail(err, CAY_E_INTERNAL,
					"the packer died, perhaps for want of memory or CPU time");
		return confined_report_check(&report, err);
	}
}

static int pack_run_child(struct packer_job *job, struct cay_err *err)
{
	auto_confined child = CONFINED_INIT;
	auto_close int ours = -EBADF, theirs = -EBADF;
	int pair[2], r;

	if (failpoint_hit(FAULT_PACK_OPENED) < 0)
		return -EIO;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot create a socket");
	ours = pair[0];
	job->sock = theirs = pair[1];
	r = confine_start_child(packer_main, job, &child, err);
	cay_closep(&theirs); /* or its end would not be seen */
	theirs = -EBADF;
	return r < 0 ? r : pack_serve_child(ours, err);
}

static int pack_check_fd(int fd, struct cay_err *err)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || flags & O_PATH ||
	    (flags & O_ACCMODE) == O_RDONLY)
		return cay_fail(err, CAY_E_INVALID, "the result is not a writable file");
	return 0;
}

/* With it a file whose mode changed has no data in the upper directory, and says so only to root.
 */
static int pack_check_metacopy(struct cay_err *err)
{
	auto_buf text = BUF_INIT(16);
	auto_close int dir =
		open("/sys/module/overlay/parameters", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 || path_read(dir, "metacopy", &text) < 0 || !text.len || text.data[0] != 'Y')
		return 0;
	(void)cay_fail(err, CAY_E_UNSUPPORTED,
		       "overlayfs of this machine may keep only what changed of a file");
	cay_err_hint(err, "turn /sys/module/overlay/parameters/metacopy off");
	return -ENOTSUP;
}

/* A mount of a directory in dir, for the child. */
static int pack_open_tree(int dir, const char *name, struct cay_err *err)
{
	auto_close int upper = path_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int r = pack_check_metacopy(err);

	if (r < 0)
		return r;
	r = upper < 0 ? upper : confine_clone_tree_readonly(upper);
	if (r == -ENOENT)
		return cay_fail(err, CAY_E_STATE, "there are no changes on the disk");
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "open the changes") : r;
}

/* Its lock is held no longer than this takes. */
static int pack_open_sandbox(const struct keeper *k, const struct verb_pack *q,
			     struct packer_job *job, struct cay_err *err)
{
	static const uint8_t none[sizeof(q->since)];
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	if (r >= 0)
		r = job->tree_fd = pack_open_tree(b.dir, IMAGE_UPPER, err);
	if (r < 0 || job->tar)
		return r;
	job->below_fd = overlay_open_image(k, b.record.image);
	if (job->below_fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -job->below_fd, "open the image of %s",
				    b.name);
	if (memcmp(q->since, none, sizeof(none)) == 0)
		return 0;
	job->since_fd = overlay_open_image(k, q->since);
	return job->since_fd < 0
		       ? cay_fail_sys(err, CAY_E_INTERNAL, -job->since_fd, "open the snapshot")
		       : 0;
}

/*
 * pack: write the changes of a sandbox to a file of cayd.  An attacker who owns cayd gets a copy of
 * the files of any sandbox, in a file that it could write anyway.
 */
int verb_pack(const struct keeper *k, const void *request, int fd, struct verb_result *,
	      struct cay_err *err)
{
	const struct verb_pack *q = request;
	struct packer_job job = { .out_fd = fd,
				  .tree_fd = -EBADF,
				  .below_fd = -EBADF,
				  .since_fd = -EBADF,
				  .max_bytes = q->max_bytes,
				  .tar = q->form == VERB_PACK_TAR };
	int r = pack_check_fd(fd, err);

	if (r >= 0)
		r = pack_open_sandbox(k, q, &job, err);
	if (r >= 0)
		r = pack_run_child(&job, err);
	cay_closep(&job.tree_fd);
	cay_closep(&job.below_fd);
	cay_closep(&job.since_fd);
	return r;
}

/* image_pack: the same for a layer of the image store, or an unpacked image, after what the file
 * has already. */
int verb_image_pack(const struct keeper *k, const void *request, int fd, struct verb_result *,
		    struct cay_err *err)
{
	const struct verb_image_pack *q = request;
	auto_close int image = -EBADF, tree = -EBADF;
	struct packer_job job = { .out_fd = fd,
				  .below_fd = -EBADF,
				  .since_fd = -EBADF,
				  .max_bytes = q->max_bytes,
				  .tar = true };
	char name[DIGEST_HEX + 8];
	off_t at = lseek(fd, 0, SEEK_CUR);
	bool unpacked;
	int r = pack_check_fd(fd, err);

	if (r < 0)
		return r;
	if (at < 0 || (uint64_t)at > INT64_MAX - q->max_bytes)
		return cay_fail(err, CAY_E_INVALID, "the file has no place for the result");
	job.at = (uint64_t)at;
	image_dir_name(q->digest, name);
	image = path_open(k->images, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (image < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "the layer does not exist");
	unpacked = faccessat(image, IMAGE_ROOTFS, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	job.tree_fd = tree = pack_open_tree(image, unpacked ? IMAGE_ROOTFS : IMAGE_UPPER, err);
	return tree < 0 ? tree : pack_run_child(&job, err);
}
