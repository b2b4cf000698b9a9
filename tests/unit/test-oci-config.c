/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/sockios.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "oci/oci-config.h"
#include "text/json.h"
#include "unit.h"

static const char *const args[] = { OCI_INIT, NULL };
static const struct json_limits limits = { MIB(1), 16, 10000 };

static json_t *write_config(bool own_network)
{
	auto_buf text = BUF_INIT(KIB(64));
	struct jw w = jw_to(&text);
	struct oci_config o = { .host_id_base = 0x90000,
				.name = "sb1",
				.root = "/r",
				.shm_bytes = 2147483648,
				.nofile = 5000,
				.args = args,
				.own_network = own_network };
	json_t *j = NULL;

	oci_config_write(&o, &w);
	assert_int_equal(jw_finish(&w), 0);
	assert_int_equal(json_parse((struct slice){ text.data, text.len }, &limits, &j, NULL), 0);
	return j;
}

static const json_t *at(const json_t *j, const char *path)
{
	struct slice rest = slice_of(path);

	while (rest.p) {
		struct slice key = slice_cut(&rest, '.');

		if (json_is_array(j))
			j = json_array_get(j, (size_t)(key.p[0] - '0'));
		else
			j = json_object_getn(j, key.p, key.n);
		assert_non_null(j);
	}
	return j;
}

static bool has(const json_t *array, const char *key, const char *text)
{
	size_t i;
	const json_t *e;

	json_array_foreach(array, i, e)
	{
		const json_t *s = key ? json_object_get(e, key) : e;

		if (s && str_eq(json_string_value(s), text))
			return true;
	}
	return false;
}

static void every_wall_is_written(void **)
{
	static const char *const spaces[] = { "user", "pid", "mount", "ipc", "uts", "cgroup" };
	static const char *const hidden[] = {
		"/proc/kcore",   "/proc/kallsyms", "/proc/keys",
		"/proc/cmdline", "/proc/fs",       "/proc/partitions"
	};
	auto_json j = write_config(false);

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		row_check(i, has(at(j, "linux.namespaces"), "type", spaces[i]));
	assert_int_equal(json_array_size(at(j, "linux.namespaces")), ARRAY_SIZE(spaces));
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		row_check(i, has(at(j, "linux.maskedPaths"), NULL, hidden[i]));
	assert_true(has(at(j, "linux.readonlyPaths"), NULL, "/proc/sys"));
	assert_true(json_is_true(at(j, "process.noNewPrivileges")));
	assert_int_equal(json_integer_value(at(j, "linux.uidMappings.0.hostID")), 0x90000);
	assert_int_equal(json_integer_value(at(j, "linux.gidMappings.0.size")), 65536);
	assert_int_equal(json_array_size(at(j, "linux.uidMappings")), 1);
	assert_int_equal(json_array_size(at(j, "linux.seccomp.architectures")), 1);
}

static void only_seven_capabilities(void **)
{
	static const char *const sets[] = { "bounding", "effective", "permitted" };
	auto_json j = write_config(false);
	const json_t *caps = at(j, "process.capabilities");

	assert_int_equal(json_object_size(caps), ARRAY_SIZE(sets));
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		const json_t *set = json_object_get(caps, sets[i]);

		row_check(i, json_array_size(set) == 7);
		row_check(i, has(set, NULL, "CAP_SETUID") && !has(set, NULL, "CAP_SYS_ADMIN") &&
				     !has(set, NULL, "CAP_NET_RAW") &&
				     !has(set, NULL, "CAP_MKNOD"));
	}
}

/* Each mount is one of a kind that cannot show the host. */
static void mounts_are_of_known_kinds(void **)
{
	auto_json j = write_config(false);
	const json_t *mounts = at(j, "mounts"), *m;
	size_t i;

	json_array_foreach(mounts, i, m)
	{
		const char *type = json_string_value(json_object_get(m, "type"));
		const char *source = json_string_value(json_object_get(m, "source"));
		const json_t *options = json_object_get(m, "options");
		bool bind = str_eq(type, "bind");

		row_check(i, has(options, NULL, "nosuid"));
		row_check(i, bind ? has(options, NULL, "ro") && (str_eq(source, OCI_SOURCE_DEV) ||
								 str_eq(source, OCI_SOURCE_SYS))
				  : str_eq(type, "proc") || str_eq(type, "devpts") ||
					     str_eq(type, "tmpfs"));
	}
}

/* The two numbers a request can change. */
static void a_request_sets_shm_and_open_files(void **)
{
	auto_json j = write_config(false);
	const json_t *list = at(j, "process.rlimits"), *e;
	unsigned seen = 0;
	size_t i;

	json_array_foreach(list, i, e)
	{
		if (!str_eq(json_string_value(json_object_get(e, "type")), "RLIMIT_NOFILE"))
			continue;
		assert_int_equal(json_integer_value(json_object_get(e, "hard")), 5000);
		assert_int_equal(json_integer_value(json_object_get(e, "soft")), 5000);
		seen++;
	}
	assert_int_equal(seen, 1);
	json_array_foreach(at(j, "mounts"), i, e)
	{
		bool shm = str_eq(json_string_value(json_object_get(e, "destination")), "/dev/shm");

		row_check(i, has(json_object_get(e, "options"), NULL, "size=2147483648") == shm);
		seen += shm;
	}
	assert_int_equal(seen, 2);
}

/* A name that libseccomp does not know would be left out in silence. */
static void every_system_call_has_a_name(void **)
{
	auto_json j = write_config(true);
	const json_t *rules = at(j, "linux.seccomp.syscalls"), *rule;
	size_t i, k, n = 0;
	const json_t *name;

	json_array_foreach(rules, i, rule)
	{
		json_array_foreach(json_object_get(rule, "names"), k, name)
		{
			const char *text = json_string_value(name);

			if (seccomp_syscall_resolve_name(text) == __NR_SCMP_ERROR)
				fail_msg("libseccomp does not know '%s'", text);
			n++;
		}
	}
	assert_true(n > 250);
}

static void dangerous_calls_are_not_allowed(void **)
{
	static const char *const never[] = {
		"bpf",
		"userfaultfd",
		"io_uring_setup",
		"keyctl",
		"add_key",
		"request_key",
		"mount",
		"umount2",
		"unshare",
		"setns",
		"modify_ldt",
		"vmsplice",
		"kexec_load",
		"perf_event_open",
		"name_to_handle_at",
		"open_by_handle_at",
		"init_module",
		"pivot_root",
		"fsopen",
		"memfd_secret",
		"syslog",
		"swapon",
		"process_vm_readv",
		"chroot",
		"quotactl",
		"acct",
		"reboot",
	};
	auto_json j = write_config(false);
	const json_t *rules = at(j, "linux.seccomp.syscalls"), *rule;
	size_t i;

	json_array_foreach(rules, i, rule)
	{
		const char *action = json_string_value(json_object_get(rule, "action"));

		for (size_t k = 0; k < ARRAY_SIZE(never); k++)
			row_check(k, !str_eq(action, "SCMP_ACT_ALLOW") ||
					     !has(json_object_get(rule, "names"), NULL, never[k]));
	}
}

static bool condition_holds(const json_t *c, const uint64_t given[static 6])
{
	uint64_t arg = given[json_integer_value(json_object_get(c, "index"))];
	uint64_t value = (uint64_t)json_integer_value(json_object_get(c, "value"));
	uint64_t two = (uint64_t)json_integer_value(json_object_get(c, "valueTwo"));
	const char *op = json_string_value(json_object_get(c, "op"));

	if (str_eq(op, "SCMP_CMP_MASKED_EQ"))
		return (arg & value) == two;
	assert_string_equal(op, "SCMP_CMP_EQ");
	return arg == value;
}

/* By a rule that allows it; what a rule without arguments says of it is no part of these tests. */
static bool is_allowed(const json_t *config, const char *name, const uint64_t given[static 6])
{
	const json_t *rules = at(config, "linux.seccomp.syscalls"), *rule, *c;
	size_t i, k;

	json_array_foreach(rules, i, rule)
	{
		const json_t *list = json_object_get(rule, "args");
		bool holds = str_eq(json_string_value(json_object_get(rule, "action")),
				    "SCMP_ACT_ALLOW") &&
			     has(json_object_get(rule, "names"), NULL, name);

		json_array_foreach(list, k, c) holds = holds && condition_holds(c, given);
		if (holds)
			return true;
	}
	return false;
}

/* Linux's numbers, from its headers and not from ours. */
static const unsigned long host_ioctls[] = { TIOCSTI,     TIOCLINUX,   TIOCSETD,    SIOCGIFBR,
					     SIOCSIFBR,   SIOCGIFVLAN, SIOCSIFVLAN, SIOCBRADDBR,
					     SIOCBRDELBR, SIOCBRADDIF, SIOCBRDELIF };

static void ioctls_of_the_host_are_denied(void **)
{
	auto_json j = write_config(false);

	for (uint64_t n = 0; n <= UINT16_MAX; n++) {
		bool denied = false;

		for (size_t i = 0; i < ARRAY_SIZE(host_ioctls); i++)
			denied = denied || n == host_ioctls[i];
		/* neither a size and a direction nor bits the kernel ignores make a difference */
		for (uint64_t high = 0; denied && high < 3; high++)
			row_check(n, !is_allowed(j, "ioctl", (uint64_t[6]){ 3, high << 31 | n }));
		if (!denied && (n % 61 == 0 || n >> 8 == 0x54 || n >> 8 == 0x89))
			row_check(n, is_allowed(j, "ioctl", (uint64_t[6]){ 3, 0x80040000 | n }));
	}
}

static void out_of_band_bytes_are_denied(void **)
{
	static const struct {
		const char *name;
		unsigned arg;
	} calls[] = {
		{ "sendto", 3 },   { "sendmsg", 2 }, { "sendmmsg", 3 },
		{ "recvfrom", 3 }, { "recvmsg", 2 }, { "recvmmsg", 3 },
	};
	auto_json j = write_config(false);

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		uint64_t given[6] = {};

		given[calls[i].arg] = MSG_NOSIGNAL | MSG_DONTWAIT;
		row_check(i, is_allowed(j, calls[i].name, given));
		given[calls[i].arg] |= MSG_OOB;
		row_check(i, !is_allowed(j, calls[i].name, given));
	}
}

static void the_limit_of_cores_stays(void **)
{
	auto_json j = write_config(false);

	for (uint64_t n = 0; n < RLIM_NLIMITS; n++)
		for (uint64_t high = 0; high < 2; high++) {
			uint64_t what = high << 32 | n;

			row_check(n, is_allowed(j, "setrlimit", (uint64_t[6]){ what, 1 }) ==
					     (n != RLIMIT_CORE));
			row_check(n, is_allowed(j, "prlimit64", (uint64_t[6]){ 0, what, 1 }) ==
					     (n != RLIMIT_CORE));
			row_check(n, is_allowed(j, "prlimit64", (uint64_t[6]){ 0, what, 0, 1 }));
		}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wall_is_written),
		cmocka_unit_test(only_seven_capabilities),
		cmocka_unit_test(mounts_are_of_known_kinds),
		cmocka_unit_test(a_request_sets_shm_and_open_files),
		cmocka_unit_test(every_system_call_has_a_name),
		cmocka_unit_test(dangerous_calls_are_not_allowed),
		cmocka_unit_test(ioctls_of_the_host_are_denied),
		cmocka_unit_test(out_of_band_bytes_are_denied),
		cmocka_unit_test(the_limit_of_cores_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
