/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_IDENTITY_H
#define CAY_INIT_CORE_IDENTITY_H
/*
 * identity - what tells a sandbox from others whose files it has a copy of
 *
 * Files of the sandbox are hostile: a name may be a link, a directory, a device or a FIFO.  None
 * is followed, opened for writing or waited for; anything but a plain file with an id stays as it
 * is.
 */

/* A file in memory whose content is another one for each start.  It is on no disk, so that no copy
 * has it. */
#define IDENTITY_GENERATION "/dev/shm/cay-generation"

/* Does not fail: without the file, programs see that there is none. */
void identity_write_generation(void);
/* Give the machine another id where its files have one (machine-id(5)).  A file that is empty or
 * says "uninitialized" has none, and none is created where there is no file.  An id that cannot be
 * replaced is removed; where PID 1, which has few capabilities, may not remove it, it stays. */
void identity_renew_machine_id(void);
#endif
