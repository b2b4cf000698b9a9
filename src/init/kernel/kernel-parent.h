/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_KERNEL_KERNEL_PARENT_H
#define CAY_INIT_KERNEL_KERNEL_PARENT_H
/*
 * kernel-parent - a python interpreter that has loaded modules, and from which kernels are forked
 *
 * A fork takes milliseconds where a start takes a second, and shares the modules' memory.  The
 * parent runs no client's code and has no client's variables, so it can start before the claim.
 * PID 1 sends it a request on a SOCK_SEQPACKET socket, with the fds of the kernel to fork:
 *
 *	{"number": 7, "env": {...}, "cwd": "/..."}
 *		stdout, stderr, requests and events of the kernel
 *
 * The kernel, which the parent leaves to PID 1, then says on the socket that it is there; its pid
 * is in the credentials that the system adds.  It begins when PID 1 sends it the frame G.  Messages
 * of the parent itself say that it is ready, with the modules that it could not load, and later
 * that it could not fork.  An answer repeats the number of its request; one request is under way at
 * a time.
 *
 * A kernel that does not fit the parent (another user, other variables that an interpreter reads
 * when it starts), or that comes while the parent is not ready, starts without it.  A parent that
 * ends is started again with the next such kernel, unless it never became ready.
 *
 * Processes of the parent's user can reach it and send anything; they own its kernels anyway.
 */
#include "init/kernel/kernel.h"

/* Start the parent that the claim asks for, if any.  The claim may still come; then only its
 * kernels, environment and user are looked at.  Only the first call counts. */
void kernel_parent_prepare(struct init *in, const struct claim *c);
/* How it is, for a reply; texts are valid until it changes.  False: the sandbox has none. */
bool kernel_parent_describe(const struct init *in, struct loaded_kernel *ret);
/* Whether the kernel can be forked now. */
bool kernel_parent_can_fork(const struct kernel *k);
/* Start it again if it has ended. */
void kernel_parent_restart(struct init *in);
/* Ask for a fork, with k->fork_fds; its exec adopts the process later. */
void kernel_parent_fork(struct kernel *k);
/* Packages change: it has to load its modules again before it forks. */
void kernel_parent_set_stale(struct init *in);
/* The kernel has ended, forked or not. */
void kernel_parent_forget(const struct kernel *k);
#endif
