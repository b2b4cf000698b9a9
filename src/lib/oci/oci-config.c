/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/oci-config.h"

#include <stdio.h>

#include "wire/verb.h"

/* Root inside may install packages and bind low ports, no more; PID 1 passes them on only to
 * execs that run as root. */
static const char *const capabilities[] = {
	"CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",           "CAP_SETUID",
	"CAP_SETGID", "CAP_KILL",         "CAP_NET_BIND_SERVICE",
};
static const char *const capability_sets[] = { "bounding", "effective", "permitted" };

/* No network: the worker's namespace is inherited, and belongs to the host's
 * user namespace, so that root inside cannot change a link or a rule (ADR 0008). */
static const char *const namespaces[] = { "user", "pid", "mount", "ipc", "uts", "cgroup" };

#define OCI_SHM "/dev/shm"

/* /dev and /sys are ours, shared by all and read-only: no image can change them, and each
 * file system less saves memory in every sandbox. */
static const struct {
	const char *at, *type, *source;
	const char *options[8];
} mounts[] = {
	{ "/proc", "proc", "proc", { "nosuid", "nodev", "noexec" } },
	{ "/dev", "bind", OCI_SOURCE_DEV, { "bind", "ro", "nosuid" } },
	{ "/dev/pts",
	  "devpts",
	  "devpts",
	  { "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", "max=256" } },
	{ OCI_SHM, "tmpfs", "shm", { "nosuid", "nodev", "noexec", "mode=1777" } }, /* and size= */
	{ "/sys", "bind", OCI_SOURCE_SYS, { "bind", "ro", "nosuid", "nodev", "noexec" } },
};

static const char *const masked[] = {
#define CAY_MASK(path, why) path,
#include "oci/masked.def"
#undef CAY_MASK
};

static const char *const read_only[] = { "/proc/sys" };

static const struct {
	const char *name;
	uint64_t limit;
} rlimits[] = {
	/* Not 0, with which the kernel still starts the host's core_pattern if that is a program: 1
	 * byte means never, and the filter keeps it so.  PID 1 sets the others:
	 * src/init/main.c says why. */
	{ "RLIMIT_CORE", 1 },
};

static void oci_config_write_list(struct jw *w, const char *key, const char *const *list, size_t n)
{
	jw_array_begin(w, key);
	for (size_t i = 0; i < n; i++)
		jw_str(w, NULL, list[i]);
	jw_end(w);
}

static void oci_config_write_rlimit(struct jw *w, const char *name, uint64_t limit)
{
	jw_object_begin(w, NULL);
	jw_str(w, "type", name);
	jw_u64(w, "soft", limit);
	jw_u64(w, "hard", limit);
	jw_end(w);
}

static void oci_config_write_process(const struct oci_config *o, struct jw *w)
{
	jw_object_begin(w, "process");
	jw_array_begin(w, "args");
	for (const char *const *arg = o->args; *arg; arg++)
		jw_str(w, NULL, *arg);
	jw_end(w);
	jw_str(w, "cwd", "/");
	jw_object_begin(w, "user");
	jw_u64(w, "uid", 0);
	jw_u64(w, "gid", 0);
	jw_end(w);
	jw_object_begin(w, "capabilities");
	for (size_t i = 0; i < ARRAY_SIZE(capability_sets); i++)
		oci_config_write_list(w, capability_sets[i], capabilities,
				      ARRAY_SIZE(capabilities));
	jw_end(w);
	jw_array_begin(w, "rlimits");
	for (size_t i = 0; i < ARRAY_SIZE(rlimits); i++)
		oci_config_write_rlimit(w, rlimits[i].name, rlimits[i].limit);
	oci_config_write_rlimit(w, "RLIMIT_NOFILE", o->nofile);
	jw_end(w);
	jw_bool(w, "noNewPrivileges", true);
	jw_end(w);
}

static void oci_config_write_size(uint64_t bytes, struct jw *w)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "size=%llu", (unsigned long long)bytes);

	jw_slice(w, NULL, (struct slice){ text, n > 0 ? (size_t)n : 0 });
}

static void oci_config_write_mounts(const struct oci_config *o, struct jw *w)
{
	jw_array_begin(w, "mounts");
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		jw_object_begin(w, NULL);
		jw_str(w, "destination", mounts[i].at);
		jw_str(w, "type", mounts[i].type);
		jw_str(w, "source", mounts[i].source);
		jw_array_begin(w, "options");
		for (size_t k = 0; k < ARRAY_SIZE(mounts[i].options) && mounts[i].options[k]; k++)
			jw_str(w, NULL, mounts[i].options[k]);
		if (str_eq(mounts[i].at, OCI_SHM))
			oci_config_write_size(o->shm_bytes, w);
		jw_end(w);
		jw_end(w);
	}
	jw_end(w);
}

static void oci_config_write_id_map(struct jw *w, const char *key, uint32_t live)
{
	jw_array_begin(w, key);
	jw_object_begin(w, NULL);
	jw_u64(w, "containerID", 0);
	jw_u64(w, "hostID", live);
	jw_u64(w, "size", VERB_RANGE_IDS);
	jw_end(w);
	jw_end(w);
}

static void oci_config_write_linux(const struct oci_config *o, struct jw *w)
{
	jw_object_begin(w, "linux");
	oci_config_write_id_map(w, "uidMappings", o->host_id_base);
	oci_config_write_id_map(w, "gidMappings", o->host_id_base);
	/* /sys/fs/cgroup is the sandbox's own (docs/adr/0006): stay there */
	jw_str(w, "cgroupsPath", "/");
	jw_array_begin(w, "namespaces");
	for (size_t i = 0; i < ARRAY_SIZE(namespaces) + o->own_network; i++) {
		jw_object_begin(w, NULL);
		jw_str(w, "type", i < ARRAY_SIZE(namespaces) ? namespaces[i] : "network");
		jw_end(w);
	}
	jw_end(w);
	oci_config_write_list(w, "maskedPaths", masked, ARRAY_SIZE(masked));
	oci_config_write_list(w, "readonlyPaths", read_only, ARRAY_SIZE(read_only));
	if (!o->filter)
		oci_config_write_seccomp(w);
	jw_end(w);
}

void oci_config_write(const struct oci_config *o, struct jw *w)
{
	jw_object_begin(w, NULL);
	jw_str(w, "ociVersion", "1.0.2");
	oci_config_write_process(o, w);
	jw_object_begin(w, "root");
	jw_str(w, "path", o->root);
	jw_end(w);
	jw_str(w, "hostname", o->name);
	oci_config_write_mounts(o, w);
	oci_config_write_linux(o, w);
	if (o->filter) {
		jw_object_begin(w, "annotations");
		jw_str(w, "run.oci.seccomp_bpf_data", o->filter);
		jw_end(w);
	}
	jw_end(w);
}
