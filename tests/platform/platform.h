/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_PLATFORM_H
#define CAY_TESTS_PLATFORM_H
/*
 * platform - the frame of the programs in this directory
 *
 * Each program asks the kernel or a runtime one question which the design leans
 * on and prints the answer as TAP.  The head comment of a program is its story:
 * what leans on it, what is checked, what was measured, what would change.
 *
 * platform_main() runs the body as PID 1 of its own pid namespace, in its own
 * mount namespace, cgroup and directory, and watches it from outside.  However
 * the body ends (done, NEED, crash, time limit, ^C) the namespaces die with it
 * and the frame removes the cgroup and the directory, so bodies hold no
 * clean-up code for processes, mounts, cgroups and files, and loop devices use
 * autoclear.  What cannot be removed fails the program.
 *
 * Only the body may CHECK; a child of it reports by its exit status or a pipe
 * and gives up with platform_die().  NEED in a helper which a child calls ends
 * that child.
 */
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/spawn.h"

#define PLATFORM_NAME_MAX 48
#define PLATFORM_WORK_MAX 64
#define PLATFORM_CGROUP_MAX 320
/* Where the live ids of a first and a second sandbox start. */
#define LIVE_A 0x00080000u
#define LIVE_B 0x00090000u
#define LIVE_IDS 65536u

struct plat {
	char name[PLATFORM_NAME_MAX]; /* cay-test-PID-RANDOM: for anything global */
	char work[PLATFORM_WORK_MAX]; /* /var/tmp/NAME: on disk, mode 0755 */
	int work_fd;
	char cgroup[PLATFORM_CGROUP_MAX]; /* our cgroup on the v2 hierarchy, the body is in it */
	int cgroup_fd;
	const char *guest; /* the static program to run inside, from argv[1] */
};

int platform_main(int argc, char **argv, void (*body)(const struct plat *p));

/* "ok N - text" or "not ok N - text"; returns cond. */
#define CHECK(cond, ...) platform_check((cond), __FILE__, __LINE__, __VA_ARGS__)
/* Nothing after it makes sense without it: silent when true, else "not ok" with
 * errno's text, and the body ends. */
#define NEED(cond, ...) ((cond) ? (void)0 : platform_give_up(__FILE__, __LINE__, __VA_ARGS__))

__attribute__((format(printf, 4, 5))) bool platform_check(bool cond, const char *file, int line,
							  const char *fmt, ...);
__attribute__((format(printf, 3, 4), noreturn)) void platform_give_up(const char *file, int line,
								      const char *fmt, ...);
/* "# text": figures seen, reasons. */
__attribute__((format(printf, 1, 2))) void platform_note(const char *fmt, ...);
/* Before the first CHECK.  Exit 0, or 1 with CAY_MUST_WORK=1. */
__attribute__((format(printf, 1, 2), noreturn)) void platform_skip(const char *fmt, ...);
/* For children of the body: the text and errno's to stderr, _exit(125). */
__attribute__((format(printf, 1, 2), noreturn)) void platform_die(const char *fmt, ...);

/* Poll cond until it holds or the time is up; returns whether it held. */
[[nodiscard]] bool platform_wait(bool (*cond)(void *arg), void *arg, unsigned timeout_ms);
uint64_t platform_now_ns(void);

/* fork() with a pidfd for the parent: 0 in the child, positive in the parent.
 * Ends the body when it fails. */
[[nodiscard]] pid_t platform_fork(struct child *ret);
/* Exit status or -signal; ends the body when waiting fails. */
int platform_reap(struct child *c);
/* fork, run fn(arg) as _exit(status), reap. */
int platform_in_child(int (*fn)(void *arg), void *arg);

/* Skip the program unless all of these are on the fixed PATH. */
void platform_require(const char *const *tools);
/* Start a program by name with stdin from /dev/null, stdout and stderr to
 * out_fd, and fds[i] as 3 + i; nothing else is inherited. */
void platform_start(const char *const *argv, int out_fd, const int *fds, unsigned n_fds,
		    struct child *ret);
/* Start and reap; what it printed is appended to out, or noted when NULL. */
int platform_run(const char *const *argv, struct buf *out);

/* A loop device for a file, or -EBUSY.  Attached with autoclear: it is free again when the fd
 * is closed and the last mount of it gone, whatever happens. */
[[nodiscard]] int platform_loop(int backing, char **ret_path);

/* Small files and paths; all end the body when they fail. */
void platform_write(int dirfd, const char *path, const char *text);
void platform_mkdir(int dirfd, const char *path, mode_t mode);
__attribute__((format(printf, 1, 2))) char *platform_format(const char *fmt,
							    ...); /* caller frees */
/* -errno, or 0: one write() into a file that exists, as the kernel's need. */
int platform_put(int dirfd, const char *path, const char *text);
/* Whole content, short files only; false when it cannot be read. */
[[nodiscard]] bool platform_get(int dirfd, const char *path, struct buf *ret);
/* Append a file's content from its start. */
void platform_slurp(int fd, struct buf *ret);
unsigned platform_count_lines(const char *path);

/* A user namespace in which 65,536 ids from inside are those from live on; the
 * fd keeps it. */
[[nodiscard]] int platform_userns(uint32_t inside, uint32_t live);

#endif
