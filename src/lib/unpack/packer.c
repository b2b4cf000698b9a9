/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/packer.h"

#include <fcntl.h>
#include <poll.h>

#include "archive/change-row.h"
#include "archive/layer-tar.h"
#include "archive/out-file.h"
#include "base/path.h"
#include "base/seqpacket.h"
#include "unpack/unpack-confine.h"

static int on_packer_dir_flags(void *arg, int fd, struct cay_err *err)
{
	const struct packer_job *job = arg;
	struct pollfd p = { .fd = job->sock, .events = POLLIN };
	uint8_t flags = PACKER_FLAGS_FAILED;
	int r = seqpacket_send(job->sock, "", 1, fd), none;
	unsigned n_fds;

	if (r >= 0 &&
	    (poll(&p, 1, -1) < 0 || seqpacket_receive(job->sock, &flags, 1, &none, &n_fds) != 1))
		r = -EPIPE;
	if (r < 0 || flags == PACKER_FLAGS_FAILED)
		return cay_fail(err, CAY_E_INTERNAL, "cannot read the attributes of a directory");
	return flags;
}

static int packer_run(struct packer_job *job, int parent, struct cay_err *err)
{
	struct confine c = { .tree_fd = job->tree_fd,
			     .keep = { &job->out_fd, &job->sock, &job->below_fd, &job->since_fd },
			     .n_keep = job->below_fd < 0   ? 2
				       : job->since_fd < 0 ? 3
							   : 4,
			     .file_max = job->at + job->max_bytes,
			     .packs = true };
	struct layer_source source = { .dir_flags = on_packer_dir_flags, .arg = job };
	auto_free struct out_file *out = NULL;
	auto_close int top = -EBADF;
	struct tree_counts counts;
	int r;

	r = confine_self(&c, parent, err);
	if (r < 0)
		return r;
	source.upper = top = path_open(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY, 0);
	source.below = job->below_fd;
	if (top < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -top, "cannot open the layer");
	out = malloc(sizeof(*out));
	if (!out)
		return cay_no_memory(err);
	out->fd = job->out_fd;
	out->left = job->max_bytes;
	out->n = 0;
	out->hole = 0;
	r = job->tar
		    ? layer_write_tar(&source, on_out_file_write, out, job->max_bytes, &counts, err)
		    : change_rows_write(&source, job->since_fd, on_out_file_write, out,
					job->max_bytes, err);
	return r < 0 ? r : out_file_finish(out, err);
}

int packer_main(void *arg, int parent)
{
	struct packer_job *job = arg;
	struct confined_report report = {};
	struct cay_err err = {};
	int r = packer_run(job, parent, &err);

	confined_report_fill(&report, r, &err);
	return seqpacket_send(job->sock, &report, sizeof(report), -EBADF) < 0;
}
