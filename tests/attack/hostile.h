/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_ATTACK_HOSTILE_H
#define CAY_TESTS_ATTACK_HOSTILE_H
/*
 * hostile - the program the attack suite runs inside a sandbox
 *
 * One static file with a mode per attack.  Each mode tries everything it can
 * think of and prints a line per attempt,
 *
 *	NAME|held|why            the sandbox held
 *	NAME|through|what        something got through
 *
 * and a last line with the count.  Exit 0: everything held; 1: something got
 * through; 2: wrong usage.  Lines beginning with "# " are facts for the driver.
 *
 * It is written to be run by accident: nothing it tries harms the machine when
 * it works.  What writes, writes into its own root; what is opened for writing
 * is never written; system calls get arguments that the kernel refuses after it
 * has looked at the privilege.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PATH_BYTES 4096
#define FIRST_FD 3
#define LAST_FD 64

/* What an attempt came to: 0, an errno, or that a signal ended it. */
#define RESULT_SIGNAL 4096
/* An open that gave a masked file or directory: there, and empty. */
#define RESULT_MASKED 8192

/* Run fn in a child of its own, so that a filter which kills, kills only that. */
int attempt(int (*fn)(const void *arg), const void *arg);
/* "ok", "EPERM", "SIGSYS", "masked". */
const char *result_text(int result);

/* One line, counted.  mode_end() prints the counts and is the exit status. */
__attribute__((format(printf, 2, 3))) void held(const char *name, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void through(const char *name, const char *fmt, ...);
/* through() when the result is 0, held() with its text otherwise. */
void judge(const char *name, int result);
__attribute__((format(printf, 1, 2))) void fact(const char *fmt, ...);
int mode_end(const char *mode);

/* printf into an array; false when it does not fit. */
#define fill(array, ...) fill_n((array), sizeof(array), __VA_ARGS__)
__attribute__((format(printf, 3, 4))) bool fill_n(char *ret, size_t n, const char *fmt, ...);
/* "DIR/NAME" in a buffer; false when it does not fit. */
bool path_join(char ret[static PATH_BYTES], const char *dir, const char *name);
/* Up to n - 1 bytes of a small file, as a string; -errno, or how many. */
ssize_t file_get(const char *path, char *ret, size_t n);
/* 0 or an errno: open for writing, never create, close. */
int file_writable(const char *path);
/* 0 or an errno: one write of text into a file that exists. */
int file_put(const char *path, const char *text);
/* 0 or an errno: our own program copied there. */
int file_copy_self(const char *path, mode_t mode);
/* Whether name is all digits, and its value. */
bool name_is_pid(const char *name, pid_t *ret);
/* The processes in /proc, at most n; how many. */
size_t pids_visible(pid_t *ret, size_t n);
#define PIDS_MAX 4096

int mode_probe(int argc, char **argv);
int mode_abi32(int argc, char **argv);
int mode_privs(int argc, char **argv);
int mode_suid(int argc, char **argv);
int mode_cgroup(int argc, char **argv);
int mode_procsys(int argc, char **argv);
int mode_leak(int argc, char **argv);
int mode_fds(int argc, char **argv);
int mode_exe(int argc, char **argv);
int mode_neighbours(int argc, char **argv);
int mode_serve_neighbour(int argc, char **argv);
int mode_devices(int argc, char **argv);
int mode_replace(int argc, char **argv);
int mode_disk(int argc, char **argv);
int mode_disk_escape(int argc, char **argv);
int mode_agent(int argc, char **argv);
int mode_greedy(int argc, char **argv);
int mode_swarm(int argc, char **argv);
int mode_hoard(int argc, char **argv);
int mode_host(int argc, char **argv);
int mode_wiretap(int argc, char **argv);

/* The i386 entry of a 64-bit kernel: what it returned, or no return at all. */
long int80(long nr, long a, long b, long c);
/* We run under the name of a program that replace put us in place of. */
int trap_sprung(const char *name);
#endif
