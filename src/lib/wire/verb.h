/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_VERB_H
#define CAY_WIRE_VERB_H
/* verb - the protocol between cayd and cay-keeper, the one program that runs as root
 *
 * SEQPACKET messages of fixed structs in native byte order, at most 4 KiB; bulk data goes by fd.
 * Ids and numbers only, so there is nothing to escape and little to parse; the only texts in
 * a request are those of a mount: its place, and the name of a directory (docs/adr/0121, 0142).
 * verb_request_check() checks every byte of a request (a test adds the fields up), including that
 * reserved bytes are zero.
 *
 * Keeper and cayd are of one build or refuse each other in hello, so the structs may change freely
 * and VERB_ABI with them.  Frozen for ever, because two builds must understand each other's
 * refusal: verb_head, verb_hello, verb_reply and VERB_INCOMPATIBLE. */
#include "base/err.h"
#include "base/id.h"
#include "wire/volume-path.h"

#define VERB_MAGIC UINT32_C(0x4b594143) /* "CAYK" */
#define VERB_ABI 20
#define VERB_SOCKET "keeper.sock"     /* below paths.run/box, which is root's */
#define VERB_BUILD "cay " CAY_VERSION /* in hello: the two are of one build */
#define VERB_MESSAGE_MAX 4096
#define VERB_REPLY_BIT 0x8000
#define VERB_LIST_MAX 56
#define VERB_MOUNTS_MAX 8   /* volumes of a sandbox */
#define VERB_CGROUP_MAX 255 /* of cgroup.path in settings.def */
#define VERB_WORKERS_MAX 45 /* verbs that the keeper carries out at once; cayd divides them */
/* In verb_reply.code; other codes are rows of errors.def, which move. */
#define VERB_INCOMPATIBLE UINT32_C(0xffff)

/* Live id ranges: 65,536 ids each from 0x00080000 up to the foreign range that files on disk belong
 * to (docs/architecture.md).  The last one is the keeper's, for probing runtimes. */
#define VERB_RANGE_BASE UINT32_C(0x00080000)
#define VERB_RANGE_IDS UINT32_C(0x00010000)
#define VERB_RANGE_FOREIGN UINT32_C(0x7ffe0000)
#define VERB_RANGE_MAX ((VERB_RANGE_FOREIGN - VERB_RANGE_BASE) / VERB_RANGE_IDS - 2)

enum verb {
	VERB_NONE,
#define CAY_VERB(sym, number, ...) VERB_##sym = number,
#include "wire/verbs.def"
#undef CAY_VERB
	VERB_NUM
};

/* The mechanism that limits a sandbox's disk (src/lib/disk). */
enum verb_disk { VERB_DISK_NONE, VERB_DISK_BTRFS, VERB_DISK_PROJECT, VERB_DISK_NUM };

struct verb_head {
	uint32_t magic;
	uint16_t verb; /* with VERB_REPLY_BIT in a reply */
	uint16_t size; /* of the whole message */
	uint64_t seq;  /* the reply has its request's */
};
static_assert(sizeof(struct verb_head) == 16);

struct verb_hello {
	struct verb_head head;
	uint32_t abi;
	uint32_t zero;
	uint8_t build[16];
};
static_assert(sizeof(struct verb_hello) == 40);

/* Verbs that need no more than which sandbox.  The generation is part of the
 * name: a late message for an earlier life of an id does nothing. */
struct verb_sandbox {
	struct verb_head head;
	struct id sandbox;
	uint64_t generation;
};
static_assert(sizeof(struct verb_sandbox) == 40);

struct verb_prepare {
	struct verb_head head;
	struct id sandbox;
	uint64_t generation;
	struct id tenant;
	uint8_t image[32];   /* SHA-256 */
	uint64_t disk_bytes; /* 0: no limit, here and below */
	uint64_t disk_inodes;
	uint32_t range;  /* which 65,536 ids */
	uint32_t memory; /* 1: its files are in memory, and it has no disk */
};
static_assert(sizeof(struct verb_prepare) == 112);

/* A volume, or a directory of the host, and its place in a sandbox.  The used rows come first,
 * sorted by id and name, so that two starts lock volumes in the same order; the others are zero. */
struct verb_mount {
	struct id volume; /* zero: a directory of the host, */
	char host[HOST_DIR_NAME_MAX +
		  1];                   /* by the name it has in the keeper's settings; else zero */
	uint32_t read_only;             /* 1: it cannot be written to */
	char path[VOLUME_PATH_MAX + 1]; /* volume-path.h; the rest is zero */
};
static_assert(sizeof(struct verb_mount) == 160);

struct verb_start {
	struct verb_head head;
	struct id sandbox;
	uint64_t generation;
	uint64_t memory_bytes;
	uint64_t shm_bytes; /* of /dev/shm */
	uint32_t cpu_milli;
	uint32_t pids;
	uint32_t nofile;
	uint32_t runtime;    /* row of the keeper's own table */
	uint64_t disk_bytes; /* size of a sandbox in memory; else 0 */
	uint64_t disk_inodes;
	uint32_t read_only; /* 1: its root, except the paths below */
	uint32_t writable;  /* a bit for each row of writable.def */
	struct verb_mount mounts[VERB_MOUNTS_MAX];
};
static_assert(sizeof(struct verb_start) == 1376);

struct verb_limits { /* 0: as it is */
	struct verb_head head;
	struct id sandbox;
	uint64_t generation;
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	uint64_t disk_inodes;
	uint32_t cpu_milli;
	uint32_t pids;
};
static_assert(sizeof(struct verb_limits) == 72);

/* Rows are sorted by id, so that a row removed between two pages hides no other. */
struct verb_list {
	struct verb_head head;
	struct id after; /* the last id of the page before; all zero for the first */
	uint64_t usage;  /* 1: with what each uses */
};
static_assert(sizeof(struct verb_list) == 40);

#define VERB_IMAGES_MAX 64 /* in one tar */

struct verb_image_add {
	struct verb_head head;
	uint64_t bytes; /* most bytes of unpacked files */
	uint64_t which; /* 0: the only image in the tar; or the first, the second ... of several */
};
static_assert(sizeof(struct verb_image_add) == 32);

struct verb_image_remove {
	struct verb_head head;
	uint8_t digest[32];
};
static_assert(sizeof(struct verb_image_remove) == 48);

/* The parent is repeated: with it the image's name can be computed after the sandbox is
 * gone, so that a commit can be repeated. */
struct verb_image_commit {
	struct verb_head head;
	struct id sandbox;
	uint64_t generation;
	uint8_t parent[32]; /* the image it was prepared with */
};
static_assert(sizeof(struct verb_image_commit) == 72);

/* The image's name is the SHA-256 of VERB_SNAPSHOT_NAME with its zero byte, and the id. */
#define VERB_SNAPSHOT_NAME "cay snapshot"
struct verb_snapshot {
	struct verb_head head;
	struct id sandbox;
	uint64_t generation;
	struct id snapshot;
	uint64_t running; /* 1: it has processes, which are frozen; 0: it is stopped */
};
static_assert(sizeof(struct verb_snapshot) == 64);

/* What a verb writes to the fd it gets, at most so many bytes. */
enum verb_pack_form { VERB_PACK_ROWS, VERB_PACK_TAR, VERB_PACK_NUM }; /* archive/change-row.h */

struct verb_pack {
	struct verb_head head;
	struct id sandbox;
	uint64_t generation;
	uint64_t max_bytes;
	uint64_t form;     /* enum verb_pack_form */
	uint8_t since[32]; /* of rows: compare with this layer; zeros: with what is below it */
};
static_assert(sizeof(struct verb_pack) == 88);

struct verb_image_pack { /* as a tar */
	struct verb_head head;
	uint8_t digest[32]; /* of a layer */
	uint64_t max_bytes;
};
static_assert(sizeof(struct verb_image_pack) == 56);

struct verb_volume {
	struct verb_head head;
	struct id volume;
	uint64_t bytes; /* 0: no limit; of volume_limit: as it is */
	uint64_t inodes;
};
static_assert(sizeof(struct verb_volume) == 48);

struct verb_volume_copy {
	struct verb_head head;
	struct id volume;
	uint64_t bytes; /* 0: no limit */
	uint64_t inodes;
	struct id from;      /* another volume */
	struct id sandbox;   /* that runs or is paused and may write to it; zero: none */
	uint64_t generation; /* of that */
	uint64_t read_only;  /* 1: nothing can ever be written to the new one */
};
static_assert(sizeof(struct verb_volume_copy) == 96);

struct verb_volume_name {
	struct verb_head head;
	struct id volume;
};
static_assert(sizeof(struct verb_volume_name) == 32);

/* Rows are sorted by id. */
struct verb_volume_list {
	struct verb_head head;
	struct id after; /* the last id of the page before; all zero for the first */
};
static_assert(sizeof(struct verb_volume_list) == 32);

/* The one message on the socket that VERB_NET returns, with STEER_NUM fds (steer/steer.h).  cayd
 * passes the socket on and never holds the listeners. */
struct verb_net_message {
	struct id sandbox;
};
static_assert(sizeof(struct verb_net_message) == 16);

/* Every failure is exactly this; a success may be longer. */
struct verb_reply {
	struct verb_head head;
	uint32_t code; /* enum cay_code, or VERB_INCOMPATIBLE */
	int32_t errnum;
	char msg[232]; /* for people, ended by 0 */
};
static_assert(sizeof(struct verb_reply) == 256);

struct verb_hello_reply {
	struct verb_reply reply;
	uint32_t abi;
	uint32_t runtimes; /* a bit for each that passed its probes */
	uint8_t build[16];
	uint32_t disk; /* enum verb_disk */
	uint32_t zero;
	char cgroup[VERB_CGROUP_MAX + 1]; /* the parent of all sandboxes, ended by 0 */
};
static_assert(sizeof(struct verb_hello_reply) == 544);

struct verb_start_reply {
	struct verb_reply reply;
	uint64_t started_boot_ns; /* of PID 1: identifies it, together with the id */
};
static_assert(sizeof(struct verb_start_reply) == 264);

struct verb_image_add_reply {
	struct verb_reply reply;
	uint8_t digest[32]; /* of the manifest: the image's name from now on */
	uint64_t bytes;     /* of its files */
};
static_assert(sizeof(struct verb_image_add_reply) == 296);

/* Usage that cayd has no permission to read. */
struct verb_usage_reply {
	struct verb_reply reply;
	uint64_t disk_bytes; /* all bits set: not counted, here and below */
	uint64_t disk_inodes;
};
static_assert(sizeof(struct verb_usage_reply) == 272);

struct verb_remove_reply {
	struct verb_reply reply;
	uint64_t cpu_ns; /* that all its processes used; all bits set: unknown, as is the next */
	uint64_t memory_peak;
};
static_assert(sizeof(struct verb_remove_reply) == 272);

struct verb_image_commit_reply {
	struct verb_reply reply;
	uint8_t digest[32]; /* of the disk's owner, not of its content */
};
static_assert(sizeof(struct verb_image_commit_reply) == 288);

struct verb_snapshot_reply {
	struct verb_reply reply;
	uint64_t bytes;     /* as a quota counts them; all bits set: not counted */
	uint8_t parent[32]; /* of the new image: that of the sandbox, or the lowest one */
};
static_assert(sizeof(struct verb_snapshot_reply) == 296);

struct verb_list_row {
	struct id sandbox;
	uint64_t generation;
	uint64_t started_boot_ns; /* 0 when there is no PID 1 */
	uint32_t range;
	uint32_t processes;
	uint32_t pid;        /* of PID 1 on the host, 0 when there is none */
	uint32_t frozen;     /* 1: by freeze */
	uint64_t disk_bytes; /* as a quota counts them; all bits set: not counted, or not asked */
	uint64_t written_bytes; /* by its processes; 0: not asked */
};
static_assert(sizeof(struct verb_list_row) == 64);

struct verb_list_reply {
	struct verb_reply reply;
	uint32_t n_rows;
	uint32_t more;    /* 1 if more rows follow */
	struct id stuck;  /* a sandbox or volume whose files could not be removed */
	uint32_t n_stuck; /* of how many */
	uint32_t zero;
	struct verb_list_row rows[VERB_LIST_MAX];
};
static_assert(sizeof(struct verb_list_reply) <= VERB_MESSAGE_MAX);

struct verb_volume_row {
	struct id volume;
	uint64_t disk_bytes; /* as a quota counts them; all bits set: not counted */
	uint32_t whole;      /* 0: its creation was cut off */
	uint32_t zero;
};
static_assert(sizeof(struct verb_volume_row) == 32);

struct verb_volume_list_reply {
	struct verb_reply reply;
	uint32_t n_rows;
	uint32_t more; /* 1 if more rows follow */
	struct verb_volume_row rows[VERB_LIST_MAX];
};
static_assert(sizeof(struct verb_volume_list_reply) <= VERB_MESSAGE_MAX);

struct verb_row {
	const char *name;
	uint16_t request_size, reply_size;
	uint8_t fds, reply_fds;
	const char *summary;
};

/* The row of a verb, or NULL. */
const struct verb_row *verb_row_find(unsigned verb);
/* Fill a request's head; the caller fills the rest. */
void verb_head_init(struct verb_head *head, enum verb verb, uint64_t seq);
/* Whether this is a valid request. n and n_fds are from recvmsg().  Returns the verb,
 * -EPROTO if it is no message at all, or -EINVAL if a field is out of range. */
[[nodiscard]] int verb_request_check(const void *msg, size_t n, unsigned n_fds,
				     struct cay_err *err);

/* Write the reply to a request, also one that verb_request_check() refused, into msg,
 * which has room for VERB_MESSAGE_MAX; the rest of a success is zeroed for the
 * caller to fill.  Returns how many bytes to send. */
[[nodiscard]] size_t verb_reply_write(void *msg, const struct verb_head *request,
				      const struct cay_err *outcome);

/* Whether this is the reply to that request. 0: *ret_outcome is the outcome the keeper reports
 * (CAY_OK or its failure); -EPROTO: err says why the bytes are no such reply.  The two are separate
 * because a sandbox can cause the first, and only a broken keeper the second. */
[[nodiscard]] int verb_reply_check(const void *msg, size_t n, unsigned n_fds,
				   const struct verb_head *request, struct cay_err *ret_outcome,
				   struct cay_err *err);
#endif
