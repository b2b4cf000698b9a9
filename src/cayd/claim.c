/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/claim.h"

#include "cayd/ask.h"
#include "cayd/image.h"
#include "wire/hello.h"

#define BODY_MAX KIB(256)

/* The image's variables, then those of the request over them. */
static int merge_env(struct box *b, const struct field_map *image, struct pool *pool,
		     struct field_map *ret)
{
	size_t max = image->n + b->env.n;

	*ret = (struct field_map){};
	if (!max)
		return 0;
	ret->keys = pool_take(pool, max, sizeof(*ret->keys));
	ret->values = pool_take(pool, max, sizeof(*ret->values));
	if (!ret->keys || !ret->values)
		return -ENOMEM;
	for (size_t i = 0; i < max; i++) {
		const struct field_map *from = i < image->n ? image : &b->env;
		size_t at = i < image->n ? i : i - image->n, k = 0;

		while (k < ret->n && !str_eq(ret->keys[k], from->keys[at]))
			k++;
		ret->keys[k] = from->keys[at];
		ret->values[k] = from->values[at];
		if (k == ret->n)
			ret->n++;
	}
	return 0;
}

static int write_claim(struct box *b, struct buf *out)
{
	auto_pool pool = POOL_INIT(KIB(64));
	const struct image_row *image = image_by_digest(b->cayd->images, b->image);
	struct claim q = {};
	struct jw w = jw_to(out);
	int r;

	if (!image)
		return -ENOENT;
	r = merge_env(b, &image->config.env, &pool, &q.env);
	if (r < 0)
		return r;
	q.user = image->config.user;
	q.cwd = image->config.cwd;
	field_encode(&claim_table, NULL, &q, &w);
	return jw_done(&w);
}

static void on_claimed(void *arg, unsigned status, struct slice body, const struct cay_err *err)
{
	struct box *b = arg;
	struct cay_err outcome = {};

	(void)body;
	if (!status)
		outcome = *err;
	else if (status != 204)
		(void)cay_fail(&outcome, CAY_E_MISBEHAVED,
			       "cay-init of the sandbox refused its claim");
	box_claimed(b, &outcome);
}

void claim_start(struct box *b)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	int r = write_claim(b, &body);

	if (r < 0) /* PID 1 refuses an empty one, and that is the outcome */
		buf_clear(&body);
	ask(b->cayd, &b->info.id, "POST", INIT_PATH_CLAIM,
	    (struct slice){ buf_str(&body), body.len }, on_claimed, b);
}
