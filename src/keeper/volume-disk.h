/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_VOLUME_DISK_H
#define CAY_KEEPER_VOLUME_DISK_H
/* volume-disk - a volume on disk, for the verbs and for mounting it */
#include "keeper/keeper.h"

#define VOLUME_DISK "disk"
#define VOLUME_UPPER "disk/upper"
#define VOLUME_WORK "disk/work"

struct volume_record {
	uint32_t magic;  /* 0: it is not whole */
	uint32_t number; /* as disk_create() takes it; no sandbox has it */
};

struct volume {
	char name[ID_TEXT_LEN + 1];
	int dir; /* holds the lock */
	struct volume_record record;
};

#define auto_volume CAY_CLEANUP(volume_fini) struct volume
#define VOLUME_INIT ((struct volume){ .dir = -EBADF })

/* Lock and open, with LOCK_SH or LOCK_EX.  CAY_E_NOT_FOUND also for one whose creation was cut off.
 * Finish v also after a failure. */
[[nodiscard]] int volume_open(const struct keeper *k, const struct id *id, int lock,
			      struct volume *v, struct cay_err *err);
void volume_fini(struct volume *v);
/* It is one that nothing can ever be written to. */
bool volume_is_frozen(const struct volume *v);
/* Before its first mount, or when the kernel finds its lower gone. */
[[nodiscard]] int volume_forget_origin(int dir);
/* The overlay of upper, lower and work below `at`: a detached mount, or -errno; -EBUSY when another
 * mount may write to these files. */
[[nodiscard]] int volume_overlay_create(const char *at, bool read_only);
#endif
