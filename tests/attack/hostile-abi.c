/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abi32 - the other doors of a 64-bit kernel
 *
 * A filter that knows only x86-64 numbers is walked around by entering with
 * i386's or x32's: same kernel, other numbers, and i386's socketcall hides the
 * address family behind a pointer that no filter can follow.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hostile.h"

#define I386_GETPID 20
#define I386_SOCKETCALL 102
#define I386_UNSHARE 310
#define SOCKETCALL_SOCKET 1
#define X32_BIT 0x40000000L

long int80(long nr, long a, long b, long c)
{
#ifdef __x86_64__
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(nr), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11", "cc");
	return (int)r;
#else
	(void)nr, (void)a, (void)b, (void)c;
	return -ENOSYS;
#endif
}

static int result_of(long r)
{
	return r < 0 ? (int)-r : 0;
}

static int i386_getpid(const void *)
{
	return result_of(int80(I386_GETPID, 0, 0, 0));
}

static int i386_socketcall(const void *)
{
	/* i386 takes 32-bit pointers */
	unsigned *args = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (args == MAP_FAILED)
		return errno;
	args[0] = AF_UNIX;
	args[1] = SOCK_STREAM;
	args[2] = 0;
	return result_of(int80(I386_SOCKETCALL, SOCKETCALL_SOCKET, (long)args, 0));
}

static int i386_unshare(const void *)
{
	return result_of(int80(I386_UNSHARE, 0x10000000 /* CLONE_NEWUSER */, 0, 0));
}

static int x32_getpid(const void *)
{
	return syscall(X32_BIT | SYS_getpid) < 0 ? errno : 0;
}

static int x32_socket(const void *)
{
	return syscall(X32_BIT | SYS_socket, AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0;
}

/* A call that came back at all was executed: the filter must kill, not answer. */
static void entry(const char *name, int (*fn)(const void *), bool must_kill)
{
	int result = attempt(fn, NULL);

	if (result == 0 || (must_kill && result < RESULT_SIGNAL))
		through(name, "executed: %s", result_text(result));
	else
		held(name, "%s", result_text(result));
}

int mode_abi32(int, char **)
{
	entry("i386 getpid", i386_getpid, true);
	entry("i386 socketcall", i386_socketcall, true);
	entry("i386 unshare", i386_unshare, true);
	/* ENOSYS where the kernel has no x32, whatever the filter says */
	entry("x32 getpid", x32_getpid, false);
	entry("x32 socket", x32_socket, false);
	return mode_end("abi32");
}
