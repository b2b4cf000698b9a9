/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#include "init/exec/exec-child.h"
#include "init/shell/shell.h"

/* Settings for use without a human: no pager, no colours, no questions. */
static const char *shell_env_keys[] = { "PAGER",
					"GIT_PAGER",
					"GH_PAGER",
					"MANPAGER",
					"SYSTEMD_PAGER",
					"TERM",
					"NO_COLOR",
					"CI",
					"GIT_TERMINAL_PROMPT",
					"DEBIAN_FRONTEND",
					"PIP_NO_INPUT",
					"HISTCONTROL" };
static const char *shell_env_values[] = { "cat",  "cat",        "cat", "cat", "cat",
					  "dumb", "1",          "1",   "0",   "noninteractive",
					  "1",    "ignorespace" };
static_assert(ARRAY_SIZE(shell_env_keys) == ARRAY_SIZE(shell_env_values));
const struct field_map shell_env = { shell_env_keys, shell_env_values, ARRAY_SIZE(shell_env_keys) };

/* bash prefixes its error messages with the name of its script, which should be "bash".  So a
 * link of this name leads to the pipe, in a directory of its own, until bash has opened it. */
static const char *const shell_link_dirs[] = { "/dev/shm", "/tmp", "/var/tmp" };

static bool shell_script_link_create(char *dir, size_t size)
{
	char target[32];
	int n = snprintf(target, sizeof(target), "/proc/self/fd/%d", SCRIPT_FD);

	if (n < 0 || (size_t)n >= sizeof(target))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(shell_link_dirs); i++) {
		n = snprintf(dir, size, "%s/.cay-XXXXXX", shell_link_dirs[i]);
		if (n < 0 || (size_t)n >= size || !mkdtemp(dir))
			continue;
		if (chdir(dir) == 0 && symlink(target, "bash") == 0)
			return true;
		(void)rmdir(dir);
	}
	return false;
}

/* Removes the link when bash has followed it and closed the other end of guard.  It is no
 * child of bash, which would notice its end. */
static void shell_script_link_cleanup(const char *dir, int guard)
{
	pid_t pid = fork();
	char c;

	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	if (pid != 0)
		return;
	if (fork() != 0)
		_exit(0);
	for (int fd = 0; fd <= SCRIPT_REPORT_FD; fd++)
		if (fd != guard)
			(void)close(fd);
	while (read(guard, &c, 1) < 0 && errno == EINTR)
		;
	(void)unlink("bash");
	(void)rmdir(dir);
	_exit(0);
}

int child_shell_exec_bash(void *)
{
	static char name[] = "bash", no_rc[] = "--norc", no_profile[] = "--noprofile";
	char dir[64], direct[32];
	char *argv[] = { name, no_rc, no_profile, name, NULL };
	int guard[2], n;

	if (dup2(CHILD_PASS + 1, SCRIPT_REPORT_FD) < 0 || pipe2(guard, O_CLOEXEC) < 0)
		return 125;
	if (shell_script_link_create(dir, sizeof(dir))) {
		shell_script_link_cleanup(dir, guard[0]);
	} else {
		/* on a read-only file system the name is less readable */
		n = snprintf(direct, sizeof(direct), "/dev/fd/%d", SCRIPT_FD);
		if (n < 0 || (size_t)n >= sizeof(direct))
			return 125;
		argv[3] = direct;
	}
	if (dup2(guard[1], SCRIPT_GUARD_FD) < 0 || dup2(CHILD_PASS, SCRIPT_FD) < 0)
		return 125;
	(void)execvp(name, argv);
	return 127;
}
