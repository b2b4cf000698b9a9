/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_AUDIT_FIXTURE_H
#define CAY_TESTS_AUDIT_FIXTURE_H
/* audit-fixture - an audit log in a directory of its own */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/audit.h"
#include "base/failpoint.h"
#include "base/path.h"
#include "unit.h"

struct fixture {
	char dir[64];
	int dirfd;
	uv_loop_t loop;
	struct clk_test clk;
	struct audit_conf conf;
	struct audit *audit;
	unsigned told, failed;
};

static inline int try_open(struct fixture *f, struct cay_err *err)
{
	f->conf.clk = &f->clk.clk;
	return audit_open(f->dirfd, &f->conf, &f->loop, &f->audit, err);
}

static inline void start(struct fixture *f)
{
	struct cay_err err = {};

	if (try_open(f, &err) < 0)
		fail_msg("%s", err.msg);
}

static inline void shut(struct fixture *f)
{
	audit_close(cay_take(f->audit));
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
}

static inline struct audit_record record_of(uint64_t n)
{
	struct audit_record rec = { .tenant = "tn0001000g00000000000000tr",
				    .op = "sandbox.create",
				    .outcome = "ok",
				    .peer = "uid=1000" };

	assert_true(snprintf(rec.request_id, sizeof(rec.request_id), "%016llx",
			     (unsigned long long)n) == 16);
	return rec;
}

static inline void on_put(void *arg, const struct cay_err *outcome)
{
	struct fixture *f = arg;

	f->told++;
	f->failed += outcome->code != CAY_OK;
}

/* Until all of them are told. */
static inline void put(struct fixture *f, unsigned n)
{
	unsigned until = f->told + n;

	for (unsigned i = 0; i < n; i++) {
		struct audit_record rec = record_of(i);

		clk_test_advance(&f->clk, 7 * NS_PER_MS);
		assert_true(audit_append(f->audit, &rec, false, on_put, f));
	}
	while (f->told < until)
		(void)uv_run(&f->loop, UV_RUN_ONCE);
}

static inline struct audit_report verify(const struct fixture *f, const struct audit_anchor *anchor)
{
	struct audit_report report;
	struct cay_err err = {};

	if (audit_verify(f->dirfd, anchor, &report, &err) < 0)
		fail_msg("%s", err.msg);
	return report;
}

static inline int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->dir, sizeof(f->dir), "/tmp/cay-audit-XXXXXX") < 0 ||
	    !mkdtemp(f->dir) || uv_loop_init(&f->loop) < 0)
		return -1;
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->clk = clk_test_create(0, UINT64_C(1794707443123) * NS_PER_MS);
	f->conf = (struct audit_conf){ .segment_bytes = MIB(16), .keep = 100 };
	*state = f;
	return 0;
}

static inline int remove_one(void *, int dirfd, const char *name)
{
	return unlinkat(dirfd, name, 0);
}

static inline int tear_down(void **state)
{
	struct fixture *f = *state;

	if (f->audit)
		shut(f);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	assert_int_equal(path_for_each_entry(f->dirfd, remove_one, NULL), 0);
	assert_int_equal(rmdir(f->dir), 0);
	(void)close(f->dirfd);
	free(f);
	return failpoint_arm(NULL, NULL);
}
#endif
