/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/path.h"
#include "broker/broker.h"
#include "text/hex.h"

#define FILE_NAME "broker.key"
#define FILE_MAX 256
#define HEX_LEN (2 * (size_t)ENVELOPE_KEY_LEN)

static int broker_key_read(int dir, struct envelope_key *ret)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r = path_read(dir, FILE_NAME, &text);

	if (r >= 0 && (text.len != HEX_LEN + 1 || text.data[HEX_LEN] != '\n'))
		r = -EINVAL;
	if (r >= 0)
		r = hex_decode(text.data, HEX_LEN, ret->bytes, sizeof(ret->bytes));
	buf_wipe(&text);
	return r;
}

static int broker_key_create(struct broker *b, int dir)
{
	struct envelope_key *key = &b->credentials.key;
	char text[HEX_LEN + 2];
	int r;

	if (getrandom(key->bytes, sizeof(key->bytes), 0) != sizeof(key->bytes))
		return -EIO;
	hex_encode(key->bytes, sizeof(key->bytes), text);
	text[HEX_LEN] = '\n';
	r = path_write_atomic(dir, FILE_NAME, text, HEX_LEN + 1, 0600);
	explicit_bzero(text, sizeof(text));
	if (r >= 0)
		log_info(&b->log, "created " BROKER_DIR "/" FILE_NAME);
	return r;
}

/* An envelope is closed and opened: what libcrypto loads for it is there before files are denied.
 */
static int broker_key_try(struct broker *b)
{
	static const struct slice secret = SLICE("probe");
	uint8_t closed[sizeof("probe") + ENVELOPE_EXTRA], got[sizeof(closed)];
	const struct slice in = { (const char *)closed, secret.n + ENVELOPE_EXTRA };
	size_t n;
	int r = envelope_key_derive(&b->credentials.key, &b->public_key);

	if (r >= 0)
		r = envelope_close(&b->public_key, secret, secret, closed);
	return r < 0 ? r : envelope_open(&b->credentials.key, secret, in, got, &n);
}

int broker_key_open(struct broker *b, struct cay_err *err)
{
	char path[sizeof(b->settings.state_dir) + sizeof(BROKER_DIR) + 1];
	int n = snprintf(path, sizeof(path), "%s/" BROKER_DIR, b->settings.state_dir);
	auto_close int dir = n < 0 || n >= (int)sizeof(path)
				     ? -ENAMETOOLONG
				     : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = dir < 0 ? -errno : path_remove_tmp_files(dir);

	if (r >= 0)
		r = broker_key_read(dir, &b->credentials.key);
	if (r == -ENOENT && dir >= 0)
		r = broker_key_create(b, dir);
	if (r >= 0)
		r = broker_key_try(b);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read %s/" FILE_NAME, path) : 0;
}
