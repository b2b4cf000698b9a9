/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/operator-key.h"

#include "auth/key.h"
#include "base/path.h"
#include "cayd/tenant/api-key.h"

#define FILE_NAME "operator.key"

/* A key that an earlier start wrote to the file but did not add to the journal. */
static bool operator_key_file_read(const struct cayd *c, char ret[static KEY_TEXT_LEN + 1])
{
	auto_buf text = BUF_INIT(KEY_TEXT_LEN + 1);
	char prefix[KEY_PREFIX_LEN + 1];

	if (path_read(c->db_dir, FILE_NAME, &text) < 0 || text.len != KEY_TEXT_LEN + 1 ||
	    text.data[KEY_TEXT_LEN] != '\n' ||
	    key_parse((struct slice){ text.data, KEY_TEXT_LEN }, prefix) < 0)
		return false;
	memcpy(ret, text.data, KEY_TEXT_LEN);
	ret[KEY_TEXT_LEN] = 0;
	explicit_bzero(text.data, text.len);
	return true;
}

static int operator_key_file_write(const struct cayd *c, const char *key, struct cay_err *err)
{
	auto_buf text = BUF_INIT(KEY_TEXT_LEN + 1);
	int r = buf_printf(&text, "%s\n", key);

	if (r >= 0)
		r = path_write_atomic(c->db_dir, FILE_NAME, text.data, text.len, 0600);
	if (text.data)
		explicit_bzero(text.data, text.len);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

static void on_operator_key_saved(void *arg, const struct cay_err *outcome)
{
	struct cayd *c = arg;

	if (outcome->code)
		log_error(&c->log, "the operator's key is in its file but not in the journal: %s",
			  outcome->msg);
}

int operator_key_ensure(struct cayd *c, struct cay_err *err)
{
	struct key_create spec = { .tenant = default_tenant,
				   .name = "operator",
				   .scope = KEY_OPERATOR };
	char key[KEY_TEXT_LEN + 1];
	struct id id;
	int r = 0;

	if (!keys_is_empty(c))
		return 0;
	if (!operator_key_file_read(c, key)) {
		r = key_generate(c, key, err);
		if (r >= 0)
			r = operator_key_file_write(c, key, err);
	}
	if (r >= 0)
		r = key_add(c, &spec, slice_of(key), &id, on_operator_key_saved, c, err);
	if (r >= 0) {
		key_add_finish(c, &id, &(struct cay_err){}); /* the file is durable */
		log_info(&c->log, "the operator's key is in %s/db/" FILE_NAME,
			 c->settings.state_dir);
	}
	explicit_bzero(key, sizeof(key));
	return r;
}
