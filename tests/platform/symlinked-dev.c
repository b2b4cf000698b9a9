/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symlinked-dev - an image whose /dev is a symlink does not reach the host
 *
 * Leans on it: the runtimes are given images of strangers as rootfs (docs/architecture.md,
 * "Images are hostile").  Runtimes before crun 1.28 and runc 1.3.6 resolved /dev of the
 * image on the host and, as root, made device nodes and links in whatever
 * directory it named (CVE-2026-47766, CVE-2026-41579).
 *
 * Checked: for both runtimes, with and without the usual tmpfs on /dev, with and
 * without a user namespace (the holes were widest without), `run` of an image whose /dev is an
 * absolute link to a watched host directory, a relative one with "..", and one with far too many
 * "..": no entry appears in the directory, not even for a moment (inotify), and its canary is
 * untouched. Whether the run succeeds or refuses is noted, not asserted; that it runs with a real
 * /dev is, otherwise a broken bundle would pass.  The oracle is tried first on what an unguarded
 * runtime does, mknod("rootfs/dev/null").
 *
 * Measured: crun 1.28 refuses all of them, runc 1.3.6 runs them and stays in the
 * rootfs.  With Debian 12's crun 1.8.1 and runc 1.1.5 in their place 18 of the
 * 24 cells fail, up to 12 and 5 entries in the host's directory.
 *
 * If it failed: the keeper's own pre-flight (openat2, mount targets must be
 * real directories) would be the only defence instead of the second one, and
 * the behaviour probe at start would refuse the runtime.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "oci.h"

#define CANARY "canary"

static const char *const run_true[] = { "/guest", "true", NULL };

struct victim {
	char *path;
	int inotify;
};

struct seen {
	unsigned entries; /* besides the canary */
	unsigned events;
};

static struct victim victim_new(const struct plat *p, const char *name)
{
	struct victim v = { .path = platform_format("%s/%s", p->work, name) };
	auto_free char *canary = platform_format("%s/%s", v.path, CANARY);

	platform_mkdir(AT_FDCWD, v.path, 0777);
	platform_write(AT_FDCWD, canary, "still here\n");
	v.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	/* everything but looking: opening and reading a directory harms nobody */
	NEED(v.inotify >= 0 &&
		     inotify_add_watch(v.inotify, v.path,
				       IN_ALL_EVENTS & (unsigned)~(IN_OPEN | IN_ACCESS |
								   IN_CLOSE_NOWRITE)) >= 0,
	     "watch %s", v.path);
	return v;
}

static void victim_fini(struct victim *v)
{
	free(v->path);
	(void)close(v->inotify);
}

static struct seen victim_look(const struct victim *v)
{
	alignas(struct inotify_event) char events[4096];
	struct seen seen = {};
	DIR *d = opendir(v->path);
	ssize_t n;

	NEED(d, "open %s", v->path);
	for (struct dirent *e; (e = readdir(d));)
		seen.entries += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
				strcmp(e->d_name, CANARY) != 0;
	(void)closedir(d);
	while ((n = read(v->inotify, events, sizeof(events))) > 0)
		for (ssize_t at = 0; at < n; seen.events++) {
			struct inotify_event e;

			memcpy(&e, events + at, sizeof(e));
			at += (ssize_t)(sizeof(e) + e.len);
		}
	return seen;
}

static void try_oracle(const struct plat *p)
{
	CAY_CLEANUP(victim_fini) struct victim v = victim_new(p, "victim-control");
	auto_free char *naive = platform_format("%s/control/rootfs/dev/null", p->work);
	struct seen seen;

	oci_bundle(p, "control",
		   &(struct oci){ .args = run_true, .live = LIVE_A, .dev_link = v.path });
	seen = victim_look(&v);
	CHECK(seen.entries == 0 && seen.events == 0, "oracle: quiet before anything happened");
	NEED(mknod(naive, S_IFCHR | 0666, makedev(1, 3)) == 0, "mknod %s", naive);
	seen = victim_look(&v);
	CHECK(seen.entries == 1 && seen.events > 0, "oracle: sees a node made through the link");
	NEED(unlink(naive) == 0, "unlink %s", naive);
	seen = victim_look(&v);
	CHECK(seen.entries == 0 && seen.events > 0, "oracle: sees a node made and removed again");
}

struct image {
	const char *name;
	const char *prefix; /* of the victim's path, or of its name when relative */
	bool relative;
};

static const struct image images[] = {
	{ "absolute", "", false },
	{ "relative", "../../", true },
	{ "climbing", "../../../../../../../../..", false },
};

/* One cell of the matrix. */
struct run {
	const struct oci_runtime *rt;
	const struct image *image;
	bool dev_tmpfs, userns;
};

static void try_run(const struct plat *p, const struct run *r)
{
	auto_free char *name =
		platform_format("%s-%s-%d%d", r->rt->name, r->image->name, r->dev_tmpfs, r->userns);
	auto_free char *victim = platform_format("victim-%s", name);
	CAY_CLEANUP(victim_fini) struct victim v = victim_new(p, victim);
	auto_free char *link =
		platform_format("%s%s", r->image->prefix, r->image->relative ? victim : v.path);
	auto_buf out = BUF_INIT(KIB(64));
	struct seen seen;
	int status;

	oci_bundle(p, name,
		   &(struct oci){ .args = run_true,
				  .live = r->userns ? LIVE_A : 0,
				  .dev_tmpfs = r->dev_tmpfs,
				  .dev_link = link });
	status = oci_run(p, &(struct oci_call){ .rt = r->rt, .bundle = name }, &out);
	seen = victim_look(&v);
	CHECK(seen.entries == 0 && seen.events == 0,
	      "%s, %s link, %s, %s: host directory untouched (%u entries, %u events)", r->rt->name,
	      r->image->name, r->dev_tmpfs ? "tmpfs on /dev" : "nothing on /dev",
	      r->userns ? "user namespace" : "host ids", seen.entries, seen.events);
	platform_note("it %s %.*s",
		      status == 0 ? "ran" : "refused:", (int)strcspn(buf_str(&out), "\n"),
		      buf_str(&out));
}

static void try_runtime(const struct plat *p, const struct oci_runtime *rt)
{
	auto_free char *plain = platform_format("%s-plain", rt->name);
	auto_buf out = BUF_INIT(KIB(64));

	oci_bundle(p, plain, &(struct oci){ .args = run_true, .live = LIVE_A, .dev_tmpfs = true });
	CHECK(oci_run(p, &(struct oci_call){ .rt = rt, .bundle = plain }, &out) == 0,
	      "%s: runs with a real /dev %s", rt->name, buf_str(&out));
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		for (unsigned bits = 0; bits < 4; bits++)
			try_run(p, &(struct run){ .rt = rt,
						  .image = &images[i],
						  .dev_tmpfs = bits & 1,
						  .userns = bits & 2 });
}

static void body(const struct plat *p)
{
	for (size_t i = 0; i < OCI_NUM_RUNTIMES; i++)
		platform_require((const char *const[]){ oci_runtimes[i].name, NULL });
	oci_show_cgroup(p);
	try_oracle(p);
	for (size_t i = 0; i < OCI_NUM_RUNTIMES; i++)
		try_runtime(p, &oci_runtimes[i]);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
