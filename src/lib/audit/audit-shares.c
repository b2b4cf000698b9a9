/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit-shares - a chain for each tenant, so that none loses records by what another does
 *
 * Files are removed by size alone: as long as all of them are too large, the tenant that has most
 * bytes loses its oldest file.  So a tenant keeps what it has while another one has more, whatever
 * that one writes.
 *
 * Descriptors are open only while a chain is written to; what is known of a chain stays in memory,
 * some 200 bytes a tenant.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit-internal.h"
#include "base/path.h"

#define BUCKETS 256
#define OF_THE_NODE "node"
/* A directory of which only the record about those that were removed is left. */
#define SHARE_BYTES_MIN 512

struct audit_share {
	struct audit_share *next;
	struct audit_chain chain;
	char name[sizeof(((struct audit_record *)0)->tenant)];
	uint64_t bytes; /* of all its files */
	bool known;     /* where its chain ends */
	struct {
		uint32_t number;
		uint64_t size;
	} entered; /* of the last file, when the chain was */
};

struct audit_shares {
	int dirfd;
	const struct audit_conf *conf;
	uint64_t bytes;
	struct audit_share *entered;
	struct audit_share *buckets[BUCKETS];
};

static struct audit_share **audit_shares_slot(struct audit_shares *s, const char *name)
{
	struct audit_share **at = &s->buckets[hash_bytes(0, name, strlen(name)) % BUCKETS];

	while (*at && !str_eq((*at)->name, name))
		at = &(*at)->next;
	return at;
}

static struct audit_share *audit_shares_find(struct audit_shares *s, const char *name)
{
	struct audit_share **at = audit_shares_slot(s, name), *one = *at;

	if (one)
		return one;
	one = calloc(1, sizeof(*one));
	if (!one)
		return NULL;
	one->chain =
		(struct audit_chain){ .dirfd = -EBADF, .fd = -EBADF, .end = { 0, AUDIT_NONE } };
	audit_record_set_text(one->name, sizeof(one->name), name);
	*at = one;
	return one;
}

/* The bytes of all files in its directory. */
static int audit_share_measure(int dirfd, uint64_t *ret)
{
	auto_audit_segments all = {};
	int r = audit_segments_list(dirfd, &all);

	*ret = 0;
	for (size_t i = 0; r >= 0 && i < all.n; i++) {
		auto_close int fd = audit_segment_open(dirfd, all.v[i]);
		off_t n = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

		if (fd < 0 || n < 0)
			r = fd < 0 ? fd : -errno;
		*ret += n > 0 ? (uint64_t)n : 0;
	}
	return r;
}

static int audit_shares_measure_again(struct audit_shares *s, struct audit_share *one)
{
	uint64_t bytes;
	int r = audit_share_measure(one->chain.dirfd, &bytes);

	if (r < 0)
		return r;
	s->bytes += bytes - one->bytes;
	one->bytes = bytes;
	return 0;
}

static int audit_shares_add_directory(void *arg, int dirfd, const char *name)
{
	struct audit_shares *s = arg;
	auto_close int dir = path_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct audit_share *one;
	int r;

	if (dir == -ENOTDIR || dir == -ELOOP || strlen(name) >= sizeof(one->name))
		return 0;
	if (dir < 0)
		return dir;
	one = audit_shares_find(s, name);
	if (!one)
		return -ENOMEM;
	r = audit_share_measure(dir, &one->bytes);
	s->bytes += one->bytes;
	return r;
}

int audit_shares_open(int dirfd, const struct audit_conf *conf, struct audit_shares **ret)
{
	struct audit_shares *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->dirfd = dirfd;
	s->conf = conf;
	r = path_for_each_entry(dirfd, audit_shares_add_directory, s);
	if (r < 0) {
		audit_shares_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void audit_shares_free(struct audit_shares *s)
{
	for (size_t i = 0; s && i < BUCKETS; i++)
		while (s->buckets[i]) {
			struct audit_share *one = s->buckets[i];

			s->buckets[i] = one->next;
			audit_chain_fini(&one->chain);
			free(one);
		}
	free(s);
}

static int audit_share_open_directory(const struct audit_shares *s, struct audit_share *one)
{
	const char *name = one->name;
	int r = path_open(s->dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (r == -ENOENT) {
		r = mkdirat(s->dirfd, name, 0700) < 0 || fsync(s->dirfd) < 0
			    ? -errno
			    : path_open(s->dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		one->known = false; /* or it was removed */
	}
	one->chain.dirfd = r < 0 ? -EBADF : r;
	return r;
}

/* Its end cannot be read: the files stay as they are, and a new chain begins in the next one, which
 * audit_verify() reports.  Other tenants must not wait for this one. */
static int audit_share_begin_again(struct audit_share *one)
{
	auto_audit_segments all = {};
	int r = audit_segments_list(one->chain.dirfd, &all);

	one->chain.end = (struct audit_anchor){ 0, AUDIT_NONE };
	return r < 0 ? r : audit_chain_begin_segment(&one->chain, all.n ? all.v[all.n - 1] + 1 : 1);
}

static int audit_share_find_end(struct audit_share *one, uint64_t *ret_torn)
{
	int r;

	one->chain.end = (struct audit_anchor){ 0, AUDIT_NONE };
	one->chain.dirty = false;
	r = audit_chain_find_end(&one->chain, ret_torn);
	if (r == -EINVAL)
		r = audit_share_begin_again(one);
	if (r >= 0)
		one->known = true;
	return r;
}

static void audit_share_close(struct audit_share *one)
{
	audit_chain_fini(&one->chain);
	cay_closep(&one->chain.dirfd);
	one->chain.dirfd = -EBADF;
}

int audit_shares_enter(struct audit_shares *s, const char *tenant, struct audit_chain **ret,
		       uint64_t *ret_torn)
{
	struct audit_share *one = audit_shares_find(s, tenant[0] ? tenant : OF_THE_NODE);
	char name[SEGMENT_NAME_LEN + 1];
	int r = one ? audit_share_open_directory(s, one) : -ENOMEM;

	*ret_torn = 0;
	if (r < 0)
		return r;
	if (one->known) {
		audit_segment_format_name(one->chain.number, name);
		r = one->chain.fd =
			path_open(one->chain.dirfd, name, O_WRONLY | O_APPEND | O_NOFOLLOW, 0);
		one->known = r != -ENOENT;
	}
	if (!one->known) {
		r = audit_share_find_end(one, ret_torn);
		if (r >= 0)
			r = audit_shares_measure_again(s, one);
	}
	if (r < 0)
		audit_share_close(one);
	one->entered.number = one->chain.number;
	one->entered.size = one->chain.size;
	s->entered = one;
	*ret = &one->chain;
	return r < 0 ? r : 0;
}

static struct audit_share *audit_shares_largest(struct audit_shares *s)
{
	struct audit_share *most = NULL;

	for (size_t i = 0; i < BUCKETS; i++)
		for (struct audit_share *one = s->buckets[i]; one; one = one->next)
			if (!most || one->bytes > most->bytes)
				most = one;
	return most;
}

/* Remove its oldest file; of the last one all but a record of it. */
static int audit_share_drop_oldest(struct audit_shares *s, struct audit_share *one)
{
	auto_audit_segments all = {};
	int r = audit_segments_list(one->chain.dirfd, &all);

	if (r >= 0)
		r = audit_chain_trim_torn(&one->chain);
	if (r >= 0 && all.n < 2)
		r = audit_chain_begin_segment(&one->chain, one->chain.number + 1);
	if (r >= 0)
		r = audit_chain_drop_old(&one->chain, all.n < 2 ? 1 : all.n - 1,
					 clk_wall_ns(s->conf->clk));
	return r < 0 ? r : audit_shares_measure_again(s, one);
}

/* A failure is retried after the next records. */
static void audit_shares_drop(struct audit_shares *s)
{
	int r = 0;

	while (r >= 0 && s->bytes > s->conf->total_bytes) {
		struct audit_share *most = audit_shares_largest(s);
		struct audit_chain *c;
		uint64_t torn;

		if (!most || most->bytes <= SHARE_BYTES_MIN)
			return;
		r = audit_shares_enter(s, most->name, &c, &torn);
		if (r < 0)
			return;
		r = audit_share_drop_oldest(s, most);
		audit_share_close(most);
	}
}

void audit_shares_leave(struct audit_shares *s)
{
	struct audit_share *one = s->entered;
	const struct audit_chain *c = &one->chain;
	/* a new file is begun before anything is written */
	uint64_t more = c->number == one->entered.number ? c->size - one->entered.size : c->size;

	one->bytes += more;
	s->bytes += more;
	audit_share_close(one);
	audit_shares_drop(s);
}
