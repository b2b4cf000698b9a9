/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup-key - give the user who runs setup a key
 *
 * root uses the daemon's socket and needs no key.  The user who ran sudo gets an operator key
 * and a context, which `cay context add` writes as that user: root writes nothing to the
 * user's home.  A key that could not be stored is revoked.
 */
#include <pwd.h>
#include <stdio.h>

#include "cli/client/port-owner.h"
#include "cli/setup/run-program.h"
#include "cli/setup/setup.h"

#define CALLER_MS 15000 /* for a command run as the caller */

struct sudo_caller {
	const char *name, *home;
	char uid[16], gid[16];
};

/* The user who ran sudo; false for root itself. */
static bool sudo_caller_find(struct sudo_caller *ret)
{
	const char *text = getenv("SUDO_UID"); /* NOLINT(concurrency-mt-unsafe): no threads */
	const struct passwd *p;
	uint64_t uid;

	if (geteuid() != 0 || !text || str_parse_u64(slice_of(text), 1, UINT32_MAX - 1, &uid) < 0)
		return false;
	p = getpwuid((uid_t)uid); /* NOLINT(concurrency-mt-unsafe): no threads */
	if (!p)
		return false;
	*ret = (struct sudo_caller){ .name = p->pw_name, .home = p->pw_dir };
	if (snprintf(ret->uid, sizeof(ret->uid), "%u", p->pw_uid) < 0)
		return false;
	return snprintf(ret->gid, sizeof(ret->gid), "%u", p->pw_gid) > 0;
}

/* Run cay as that user; returns its exit status. */
static int sudo_caller_run_cay(struct setup *s, const struct sudo_caller *who,
			       const char *const *words, const char *input, struct cay_err *err)
{
	const char *argv[20] = { "setpriv", "--reuid",       who->uid,      "--regid",
				 who->gid,  "--init-groups", "--reset-env", "--" };
	auto_buf out = BUF_INIT(KIB(4)), exe = BUF_INIT(4097);
	size_t n = 8;
	int r;

	if (buf_reserve(&exe, 4096) < 0)
		return cay_no_memory(err);
	r = (int)readlink("/proc/self/exe", exe.data, 4095);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "find cay");
	exe.data[r] = 0;
	argv[n++] = exe.data;
	for (; *words && n + 1 < ARRAY_SIZE(argv); words++)
		argv[n++] = *words;
	return run_program_to_end(&s->cli->arena, argv, input, CALLER_MS, &out, err);
}

static bool sudo_caller_has_context(struct setup *s, const struct sudo_caller *who)
{
	static const char *const words[] = { "context", "show", SETUP_CONTEXT, NULL };
	struct cay_err none = {};

	return sudo_caller_run_cay(s, who, words, NULL, &none) == 0;
}

/* The url of this machine's edge over plain HTTP; NULL: it has none. */
static const char *setup_edge_url_format(struct setup *s)
{
	struct slice rest = slice_of(s->cli->settings.edge_listen), first = slice_cut(&rest, ' ');
	auto_buf url = BUF_INIT(300);
	struct cay_err none = {};
	struct url parsed;

	if (s->cli->settings.edge_cert[0] ||
	    buf_printf(&url, "http://%.*s", (int)first.n, first.p) < 0 ||
	    context_url_parse(buf_str(&url), &parsed, &none) < 0)
		return NULL;
	return arena_strndup(&s->cli->arena, buf_str(&url), url.len);
}

int setup_key_check(struct setup *s, struct cay_err *)
{
	auto_buf path = BUF_INIT(4200);
	struct sudo_caller who;

	if (sudo_caller_find(&who) && setup_edge_url_format(s)) {
		if (!sudo_caller_has_context(s, &who))
			return setup_report(s, 0, "%s has no context '" SETUP_CONTEXT "' yet",
					    who.name);
		return setup_report(s, 1, "%s has the context '" SETUP_CONTEXT "'", who.name);
	}
	if (buf_printf(&path, "%s/db/operator.key", s->cli->settings.state_dir) >= 0 &&
	    access(buf_str(&path), F_OK) == 0)
		return setup_report(s, 1, "root needs none; the operator key is %s",
				    buf_str(&path));
	return setup_report(s, 1, "root needs none; create others with 'cay key create'");
}

static int setup_key_hand_over(struct setup *s, const struct sudo_caller *who, const char *secret,
			       struct cay_err *err)
{
	const char *const url = setup_edge_url_format(s);
	const char *const fresh[] = { "context",       "add",         "--url", url,
				      "--token-stdin", SETUP_CONTEXT, NULL };
	const char *const add[] = { "context", "add",           "--replace",   "--url",
				    url,       "--token-stdin", SETUP_CONTEXT, NULL };
	static const char *const use[] = { "context", "use", SETUP_CONTEXT, NULL };
	int r = sudo_caller_run_cay(s, who, fresh, secret, err);

	if (r > 0) /* the context exists and cannot be read */
		r = sudo_caller_run_cay(s, who, add, secret, err);
	if (r == 0)
		r = sudo_caller_run_cay(s, who, use, NULL, err);
	return r > 0 ? cay_fail(err, CAY_E_INTERNAL, "'cay context add' failed as %s", who->name)
		     : r;
}

/* Revoke a key that no context holds.  If the context exists all the same, as after a
 * timeout, the key must stay valid: the next run would not replace it. */
static void setup_key_revoke_unused(struct setup *s, const struct sudo_caller *who,
				    const struct key_info *key, struct cay_err *err)
{
	struct cay_err why = {};

	if (sudo_caller_has_context(s, who))
		return;
	if (api_call(s->api, &(struct api_call){ .op = OP_KEY_REVOKE, .ids = { key->id } },
		     &(struct key_info){}, &why) < 0)
		(void)cay_err_wrap(err, 0, "run 'cay key revoke %s', which failed: %s", key->prefix,
				   why.msg);
}

int setup_key_apply(struct setup *s, struct cay_err *err)
{
	struct key_create request = { .name = "setup", .scope = KEY_OPERATOR };
	struct api_call create = { .op = OP_KEY_CREATE, .request = &request };
	struct key_made made = {};
	struct sudo_caller who;
	struct url url = {};
	int r = context_url_parse(setup_edge_url_format(s), &url, err);

	if (!sudo_caller_find(&who))
		return cay_fail(err, CAY_E_INTERNAL, "setup was not run with sudo");
	if (r >= 0) /* the user's key will be sent to that port */
		r = port_owner_check_trusted(url.port, err);
	if (r >= 0)
		r = api_find_tenant(s->api, "default", &request.tenant, err);
	if (r >= 0)
		r = api_call(s->api, &create, &made, err);
	if (r < 0)
		return r;
	r = setup_key_hand_over(s, &who, made.secret, err);
	if (r >= 0)
		return setup_report(s, 0,
				    "%s has an operator key, in the context '" SETUP_CONTEXT "'",
				    who.name);
	setup_key_revoke_unused(s, &who, &made.key, err);
	return r;
}
