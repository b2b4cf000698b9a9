/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "oci/oci-config.h"
#include "text/base64.h"
#include "text/json.h"
#include "unit.h"

static const char *const args[] = { OCI_INIT, NULL };
static const struct json_limits limits = { MIB(1), 16, 10000 };

static json_t *write_config_with(bool own_network, const char *filter)
{
	auto_buf text = BUF_INIT(KIB(64));
	struct jw w = jw_to(&text);
	struct oci_config o = { .host_id_base = 0x90000,
				.name = "sb1",
				.root = "/r",
				.shm_bytes = 2147483648,
				.nofile = 5000,
				.args = args,
				.filter = filter,
				.own_network = own_network };
	json_t *j = NULL;

	oci_config_write(&o, &w);
	assert_int_equal(jw_finish(&w), 0);
	assert_int_equal(json_parse((struct slice){ text.data, text.len }, &limits, &j, NULL), 0);
	return j;
}

static json_t *write_config(bool own_network)
{
	return write_config_with(own_network, NULL);
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

/* The compiled filter, and the kernel's rules for running it. */
static struct {
	uint8_t text[BASE64_BYTES(OCI_FILTER_MAX)];
	struct sock_filter code[BPF_MAXINSNS];
	size_t n;
} program;

static void compile_filter(void)
{
	auto_buf text = BUF_INIT(OCI_FILTER_MAX);
	size_t bytes;

	assert_int_equal(oci_filter_compile(&text), 0);
	assert_int_equal(base64_decode(text.data, text.len, program.text, &bytes), 0);
	assert_int_equal(bytes % sizeof(struct sock_filter), 0);
	assert_in_range(bytes, 1, sizeof(program.code));
	memcpy(program.code, program.text, bytes);
	program.n = bytes / sizeof(struct sock_filter);
}

static bool jump_taken(uint16_t code, uint32_t a, uint32_t k)
{
	switch (BPF_OP(code)) {
	case BPF_JA:
		return true;
	case BPF_JEQ:
		return a == k;
	case BPF_JGT:
		return a > k;
	case BPF_JGE:
		return a >= k;
	case BPF_JSET:
		return a & k;
	default:
		fail_msg("unknown jump %x", code);
		return false;
	}
}

/* One that the kernel would not load, or that does not end, fails. */
static uint32_t run_filter(uint32_t arch, uint32_t nr, const uint64_t given[static 6])
{
	struct seccomp_data data = { .nr = (int)nr, .arch = arch };
	uint32_t a = 0;

	if (!program.n)
		compile_filter();
	memcpy(data.args, given, sizeof(data.args));
	for (size_t at = 0; at < program.n; at++) {
		const struct sock_filter *f = &program.code[at];

		switch (BPF_CLASS(f->code)) {
		case BPF_RET:
			assert_int_equal(f->code, BPF_RET | BPF_K);
			return f->k;
		case BPF_LD:
			assert_int_equal(f->code, BPF_LD | BPF_W | BPF_ABS);
			assert_in_range(f->k, 0, sizeof(data) - sizeof(a));
			memcpy(&a, (const char *)&data + f->k, sizeof(a));
			break;
		case BPF_ALU:
			assert_int_equal(f->code, BPF_ALU | BPF_AND | BPF_K);
			a &= f->k;
			break;
		case BPF_JMP:
			if (BPF_OP(f->code) == BPF_JA)
				at += f->k;
			else
				at += jump_taken(f->code, a, f->k) ? f->jt : f->jf;
			break;
		default:
			fail_msg("unknown instruction %x", f->code);
		}
	}
	fail_msg("the filter has no end");
	return 0;
}

static uint32_t native_arch(void)
{
	return seccomp_arch_native() == SCMP_ARCH_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
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

static bool rule_holds(const json_t *rule, const char *name, const uint64_t given[static 6])
{
	bool holds = has(json_object_get(rule, "names"), NULL, name);
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(rule, "args"), i, c) holds =
		holds && condition_holds(c, given);
	return holds;
}

/* What the rules say, as text: first those that allow. */
static uint32_t rules_decide(const json_t *config, const char *name, const uint64_t given[static 6])
{
	const json_t *rules = at(config, "linux.seccomp.syscalls"), *rule;
	uint32_t error = (uint32_t)json_integer_value(at(config, "linux.seccomp.defaultErrnoRet"));
	size_t i;

	json_array_foreach(rules, i, rule)
	{
		const char *action = json_string_value(json_object_get(rule, "action"));

		if (!rule_holds(rule, name, given))
			continue;
		if (str_eq(action, "SCMP_ACT_ALLOW"))
			return SECCOMP_RET_ALLOW;
		assert_string_equal(action, "SCMP_ACT_ERRNO");
		error = (uint32_t)json_integer_value(json_object_get(rule, "errnoRet"));
	}
	return SECCOMP_RET_ERRNO | error;
}

/* By the rules, and by the compiled filter as well. */
static bool is_allowed(const json_t *config, const char *name, const uint64_t given[static 6])
{
	int nr = seccomp_syscall_resolve_name(name);
	uint32_t says = rules_decide(config, name, given);

	if (nr >= 0 && run_filter(native_arch(), (uint32_t)nr, given) != says)
		fail_msg("the filter differs from the rules in %s(%" PRIx64 ", %" PRIx64
			 ", %" PRIx64 ", %" PRIx64 ")",
			 name, given[0], given[1], given[2], given[3]);
	return says == SECCOMP_RET_ALLOW;
}

/* Numbers that nothing has a name for fail as any call without a rule. */
static void the_filter_decides_every_number(void **)
{
	static const uint64_t none[6] = {};
	auto_json j = write_config(false);
	unsigned known = 0;

	for (uint32_t nr = 0; nr < 1024; nr++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)nr);

		if (name)
			(void)is_allowed(j, name, none);
		else
			row_check(nr, run_filter(native_arch(), nr, none) ==
					      (SECCOMP_RET_ERRNO | ENOSYS));
		known += name != NULL;
		free(name);
	}
	assert_true(known > 250);
	assert_int_equal(run_filter(AUDIT_ARCH_I386, 1, none), SECCOMP_RET_KILL);
	assert_int_equal(run_filter(AUDIT_ARCH_ARM, 1, none), SECCOMP_RET_KILL);
	if (native_arch() == AUDIT_ARCH_X86_64) /* the x32 ABI */
		assert_int_equal(run_filter(AUDIT_ARCH_X86_64, 0x40000001, none), SECCOMP_RET_KILL);
}

/* Around every value that a rule names: met, and each of some bits wrong. */
static void the_filter_is_the_rules(void **)
{
	static const unsigned bits[] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
					 12, 13, 14, 15, 16, 17, 28, 29, 30, 31, 32, 63 };
	auto_json j = write_config(false);
	const json_t *rules = at(j, "linux.seccomp.syscalls"), *rule, *c;
	size_t i, k;

	json_array_foreach(rules, i, rule)
	{
		const char *name =
			json_string_value(json_array_get(json_object_get(rule, "names"), 0));
		const json_t *list = json_object_get(rule, "args");
		uint64_t given[6] = {};

		json_array_foreach(list, k, c)
		{
			bool masked = str_eq(json_string_value(json_object_get(c, "op")),
					     "SCMP_CMP_MASKED_EQ");

			given[json_integer_value(json_object_get(c, "index"))] =
				(uint64_t)json_integer_value(
					json_object_get(c, masked ? "valueTwo" : "value"));
		}
		(void)is_allowed(j, name, given);
		json_array_foreach(list, k, c) for (size_t b = 0; b < ARRAY_SIZE(bits); b++)
		{
			uint64_t *arg = &given[json_integer_value(json_object_get(c, "index"))];

			*arg ^= UINT64_C(1) << bits[b];
			(void)is_allowed(j, name, given);
			*arg ^= UINT64_C(1) << bits[b];
		}
	}
}

/* Either the rules or the filter, never neither. */
static void a_runtime_gets_the_filter(void **)
{
	auto_json j = write_config_with(false, "QUJD");

	assert_null(json_object_get(at(j, "linux"), "seccomp"));
	assert_string_equal(json_string_value(json_object_get(at(j, "annotations"),
							      "run.oci.seccomp_bpf_data")),
			    "QUJD");
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
		cmocka_unit_test(the_filter_decides_every_number),
		cmocka_unit_test(the_filter_is_the_rules),
		cmocka_unit_test(a_runtime_gets_the_filter),
		cmocka_unit_test(ioctls_of_the_host_are_denied),
		cmocka_unit_test(out_of_band_bytes_are_denied),
		cmocka_unit_test(the_limit_of_cores_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
