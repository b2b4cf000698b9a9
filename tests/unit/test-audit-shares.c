/* SPDX-License-Identifier: Apache-2.0 */
/* A chain for each tenant: none loses records by what another one writes. */
#include <string.h>
#include <sys/stat.h>

#include "audit-fixture.h"

#define TOTAL KIB(64)
#define SEGMENT KIB(8)
#define QUIET "tn0001000g00000000000000tr"
#define LOUD "tn0002000g00000000000000v1"

static int remove_directory(void *, int dirfd, const char *name)
{
	auto_close int dir = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

	if (dir < 0 || path_for_each_entry(dir, remove_one, NULL) < 0)
		return -1;
	return unlinkat(dirfd, name, AT_REMOVEDIR);
}

static int tear_down_shares(void **state)
{
	struct fixture *f = *state;

	if (f->audit)
		shut(f);
	return path_for_each_entry(f->dirfd, remove_directory, NULL) < 0 ? -1 : tear_down(state);
}

static int set_up_shares(void **state)
{
	struct fixture *f;

	if (set_up(state) < 0)
		return -1;
	f = *state;
	f->conf.segment_bytes = SEGMENT;
	f->conf.total_bytes = TOTAL;
	return 0;
}

static void put_one(struct fixture *f, const char *tenant)
{
	struct audit_record rec = record_of(f->told);

	audit_set(rec.tenant, tenant);
	assert_true(audit_append(f->audit, &rec, false, on_put, f));
}

static void put_for(struct fixture *f, const char *tenant, unsigned n)
{
	unsigned until = f->told;

	while (n) {
		unsigned some = n < 100 ? n : 100;

		until += some;
		for (n -= some; some--;)
			put_one(f, tenant);
		while (f->told < until)
			(void)uv_run(&f->loop, UV_RUN_ONCE);
	}
	assert_int_equal(f->failed, 0);
}

static struct audit_report verify_of(const struct fixture *f, const char *tenant)
{
	struct fixture part = { .dirfd = path_open(f->dirfd, tenant, O_RDONLY | O_DIRECTORY, 0) };
	struct audit_report report;

	assert_true(part.dirfd >= 0);
	report = verify(&part, NULL);
	(void)close(part.dirfd);
	return report;
}

static int add_size(void *arg, int dirfd, const char *name)
{
	struct stat st;
	uint64_t *sum = arg;

	assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	*sum += (uint64_t)st.st_size;
	return 0;
}

static int add_directory(void *arg, int dirfd, const char *name)
{
	auto_close int dir = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

	return path_for_each_entry(dir, add_size, arg);
}

static uint64_t bytes_of_all(const struct fixture *f)
{
	uint64_t sum = 0;

	assert_int_equal(path_for_each_entry(f->dirfd, add_directory, &sum), 0);
	return sum;
}

static void a_flood_of_one_tenant_leaves_the_records_of_another(void **state)
{
	struct fixture *f = *state;
	struct audit_report report;

	start(f);
	put_for(f, QUIET, 40); /* three files */
	put_for(f, LOUD, 3000);
	put_for(f, QUIET, 1);
	shut(f);
	report = verify_of(f, QUIET);
	assert_int_equal(report.verdict, AUDIT_INTACT);
	assert_int_equal(report.at.count, 41);
	assert_int_equal(report.base.count, 0);
	report = verify_of(f, LOUD);
	assert_int_equal(report.verdict, AUDIT_INTACT);
	assert_true(report.at.count > 3000 && report.base.count > 2000);
	assert_true(bytes_of_all(f) <= TOTAL);
	assert_true(bytes_of_all(f) > TOTAL / 2);
}

/* Records of several tenants that come at once; what is there counts after a restart. */
static void a_restart_goes_on_with_each_chain(void **state)
{
	struct fixture *f = *state;
	unsigned until = 300;

	for (unsigned round = 0; round < 2; round++, until += 300) {
		start(f);
		for (unsigned i = 0; i < 300; i++)
			put_one(f, i % 3 ? LOUD : QUIET);
		while (f->told < until)
			(void)uv_run(&f->loop, UV_RUN_ONCE);
		shut(f);
	}
	assert_int_equal(verify_of(f, QUIET).verdict, AUDIT_INTACT);
	assert_true(verify_of(f, QUIET).at.count >= 200);
	assert_int_equal(verify_of(f, LOUD).verdict, AUDIT_INTACT);
	assert_true(verify_of(f, LOUD).at.count >= 400);
	assert_true(bytes_of_all(f) <= TOTAL);
}

/* More tenants than files: of the one that has most, all but a record of the loss goes. */
static void more_tenants_than_room(void **state)
{
	struct fixture *f = *state;
	char name[32];

	start(f);
	for (unsigned i = 0; i < 40; i++) {
		assert_true(snprintf(name, sizeof(name), "tenant-%u", i) > 0);
		put_for(f, name, 9);
	}
	shut(f);
	for (unsigned i = 0; i < 40; i++) {
		assert_true(snprintf(name, sizeof(name), "tenant-%u", i) > 0);
		row_check(i, verify_of(f, name).verdict == AUDIT_INTACT);
		row_check(i, verify_of(f, name).at.count >= 9);
	}
	assert_true(bytes_of_all(f) <= TOTAL);
}

static void a_damaged_chain_stops_no_other(void **state)
{
	struct fixture *f = *state;
	auto_close int dir = -EBADF, file = -EBADF;

	start(f);
	put_for(f, QUIET, 3);
	put_for(f, LOUD, 3);
	shut(f);
	dir = path_open(f->dirfd, LOUD, O_RDONLY | O_DIRECTORY, 0);
	file = path_open(dir, "00000001.log", O_WRONLY | O_APPEND, 0);
	assert_int_equal(fd_write_all(file, "{}\n", 3), 0);
	start(f);
	put_for(f, LOUD, 2);
	put_for(f, QUIET, 2);
	put_for(f, LOUD, 2000); /* files that are damaged are removed like others */
	shut(f);
	assert_int_equal(verify_of(f, QUIET).verdict, AUDIT_INTACT);
	assert_int_equal(verify_of(f, QUIET).at.count, 5);
	assert_true(bytes_of_all(f) <= TOTAL);
}

static void damage_is_reported(void **state)
{
	struct fixture *f = *state;
	auto_close int dir = -EBADF, file = -EBADF;

	start(f);
	put_for(f, LOUD, 3);
	shut(f);
	dir = path_open(f->dirfd, LOUD, O_RDONLY | O_DIRECTORY, 0);
	file = path_open(dir, "00000001.log", O_WRONLY | O_APPEND, 0);
	assert_int_equal(fd_write_all(file, "{}\n", 3), 0);
	start(f);
	put_for(f, LOUD, 2);
	shut(f);
	assert_int_equal(verify_of(f, LOUD).verdict, AUDIT_UNREADABLE);
	assert_int_equal(verify_of(f, LOUD).at.count, 3);
}

/* A crash leaves half a line, of one tenant. */
static void half_a_line_is_cut_and_recorded(void **state)
{
	struct fixture *f = *state;
	auto_close int dir = -EBADF, file = -EBADF;

	start(f);
	put_for(f, QUIET, 3);
	shut(f);
	dir = path_open(f->dirfd, QUIET, O_RDONLY | O_DIRECTORY, 0);
	file = path_open(dir, "00000001.log", O_WRONLY | O_APPEND, 0);
	assert_int_equal(fd_write_all(file, "{\"seq\":4", 8), 0);
	start(f);
	put_for(f, LOUD, 1);
	put_for(f, QUIET, 1);
	shut(f);
	assert_int_equal(verify_of(f, QUIET).verdict, AUDIT_INTACT);
	assert_int_equal(verify_of(f, QUIET).at.count, 5); /* with that of the cut */
}

static void a_tenant_has_a_share_of_the_queue(void **state)
{
	struct fixture *f = *state;
	struct audit_record rec = record_of(1);

	start(f);
	for (unsigned i = 0; i < AUDIT_PENDING_OF_TENANT_MAX; i++)
		put_one(f, LOUD); /* none is over before the loop runs */
	audit_set(rec.tenant, LOUD);
	assert_false(audit_append(f->audit, &rec, false, on_put, f));
	put_one(f, QUIET);
	while (f->told < AUDIT_PENDING_OF_TENANT_MAX + 1)
		(void)uv_run(&f->loop, UV_RUN_ONCE);
	put_one(f, LOUD);
	shut(f);
	assert_int_equal(verify_of(f, "node").at.count, 1); /* that one is missing */
	assert_int_equal(verify_of(f, QUIET).at.count, 1);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up_shares, tear_down_shares)
	const struct CMUnitTest tests[] = {
		TEST(a_flood_of_one_tenant_leaves_the_records_of_another),
		TEST(a_restart_goes_on_with_each_chain),
		TEST(more_tenants_than_room),
		TEST(a_damaged_chain_stops_no_other),
		TEST(damage_is_reported),
		TEST(half_a_line_is_cut_and_recorded),
		TEST(a_tenant_has_a_share_of_the_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
