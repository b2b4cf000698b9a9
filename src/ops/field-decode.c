/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "ops/field-internal.h"
#include "text/percent.h"

static struct slice text_of(const json_t *j)
{
	return (struct slice){ json_string_value(j), json_string_length(j) };
}

/* "argv[2]" instead of "argv" */
static int refuse_entry(const struct field *f, size_t i, const char *what, struct cay_err *err)
{
	int r = cay_fail_field(err, CAY_E_INVALID, "", "'%s' entry %zu must be %s", f->name, i,
			       what);
	char index[32];

	if (err && snprintf(index, sizeof(index), "[%zu]", i) < (int)sizeof(index))
		cay_in_field(err, index);
	cay_in_field(err, f->name);
	return r;
}

static int decode_texts(const struct field *f, const json_t *j, struct pool *pool,
			struct field_texts *at, struct cay_err *err)
{
	size_t n = json_array_size(j);

	if (!json_is_array(j) || n < f->min || n > f->max)
		return field_refuse(f, err);
	at->v = pool_take(pool, n + 1, sizeof(*at->v));
	for (size_t i = 0; at->v && i < n; i++) {
		const json_t *e = json_array_get(j, i);

		if (!json_is_string(e))
			return refuse_entry(f, i, "text", err);
		at->v[i] = pool_strn(pool, text_of(e).p, text_of(e).n);
		if (!at->v[i])
			return field_no_room(f->name, pool, err);
	}
	if (!at->v)
		return field_no_room(f->name, pool, err);
	at->n = n;
	return 0;
}

static int decode_map(const struct field *f, json_t *j, struct pool *pool, struct field_map *at,
		      struct cay_err *err)
{
	size_t n = json_object_size(j), i = 0;
	const char *key;
	json_t *value;

	if (!json_is_object(j) || n < f->min || n > f->max)
		return field_refuse(f, err);
	at->keys = pool_take(pool, n + 1, sizeof(*at->keys));
	at->values = pool_take(pool, n + 1, sizeof(*at->values));
	if (!at->keys || !at->values)
		return field_no_room(f->name, pool, err);
	json_object_foreach (j, key, value) {
		bool gone = f->patch && json_is_null(value);

		if (!field_check_key(f->check, slice_of(key)) ||
		    (!gone &&
		     (!json_is_string(value) || !field_check_row(f->check)->ok(text_of(value)))))
			return cay_fail_field(err, CAY_E_INVALID, f->name,
					      "'%s' entry '%.64s' must be text%s%s", f->name, key,
					      f->check == CHECK_ANY ? "" : ", ",
					      field_check_row(f->check)->what);
		at->keys[i] = pool_strn(pool, key, strlen(key));
		if (!gone)
			at->values[i] = pool_strn(pool, text_of(value).p, text_of(value).n);
		if (!at->keys[i] || (!gone && !at->values[i]))
			return field_no_room(f->name, pool, err);
		i++;
	}
	at->n = n;
	return 0;
}

static int decode_list(const struct field *f, const json_t *j, struct pool *pool,
		       struct field_list *at, struct cay_err *err)
{
	size_t n = json_array_size(j);

	if (!json_is_array(j) || n < f->min || n > f->max)
		return field_refuse(f, err);
	at->v = pool_take(pool, n ? n : 1, f->sub->size);
	if (!at->v)
		return field_no_room(f->name, pool, err);
	for (size_t i = 0; i < n; i++) {
		int r = field_decode(f->sub, json_array_get(j, i), pool,
				     (char *)at->v + i * f->sub->size, err);

		if (r < 0) {
			char index[32];

			if (snprintf(index, sizeof(index), "[%zu]", i) < (int)sizeof(index))
				cay_in_field(err, index);
			cay_in_field(err, f->name);
			return r;
		}
	}
	at->n = n;
	return 0;
}

/* Numbers as JSON has them; quantities and everything else go by text. */
static int decode_integer(const struct field *f, const json_t *j, void *at, struct cay_err *err)
{
	json_int_t v = json_integer_value(j);

	if (!json_is_integer(j))
		return field_refuse(f, err);
	if (v < 0 || (uint64_t)v < f->min || (uint64_t)v > f->max)
		return field_refuse(f, err);
	static_assert(sizeof(v) == sizeof(uint64_t));
	memcpy(at, &v, sizeof(v));
	return 0;
}

static int decode_bool(const struct field *f, const json_t *j, bool *at, struct cay_err *err)
{
	if (!json_is_boolean(j))
		return field_refuse(f, err);
	*at = json_is_true(j);
	return 0;
}

static int decode_text(const struct field *f, const json_t *j, struct pool *pool, void *ret,
		       struct cay_err *err)
{
	if (!json_is_string(j))
		return field_refuse(f, err);
	return field_set_text(f, text_of(j), pool, ret, err);
}

static int decode_object(const struct field *f, const json_t *j, struct pool *pool, void *at,
			 struct cay_err *err)
{
	int r = field_decode(f->sub, j, pool, at, err);

	if (r < 0)
		cay_in_field(err, f->name);
	return r;
}

static int decode_present(const struct field *f, json_t *j, struct pool *pool, void *ret,
			  struct cay_err *err)
{
	void *at = (char *)ret + f->offset;

	switch (f->type) {
	case FIELD_BOOL:
		return decode_bool(f, j, at, err);
	case FIELD_U64:
		return decode_integer(f, j, at, err);
	case FIELD_BYTES:
	case FIELD_MILLI:
		return json_is_string(j) ? decode_text(f, j, pool, ret, err)
					 : decode_integer(f, j, at, err);
	case FIELD_TEXT:
	case FIELD_ENUM:
	case FIELD_ID:
	case FIELD_TIME:
		return decode_text(f, j, pool, ret, err);
	case FIELD_TEXTS:
		return decode_texts(f, j, pool, at, err);
	case FIELD_MAP:
		return decode_map(f, j, pool, at, err);
	case FIELD_OBJECT:
		return decode_object(f, j, pool, at, err);
	case FIELD_LIST:
		return decode_list(f, j, pool, at, err);
	case FIELD_NUM_TYPES:
		break;
	}
	assert(false);
	return -EINVAL;
}

static int decode_one(const struct field *f, json_t *j, struct pool *pool, void *ret,
		      struct cay_err *err)
{
	int r;

	if (!j || json_is_null(j))
		return field_set_absent(f, ret, err);
	r = decode_present(f, j, pool, ret, err);
	if (r >= 0)
		field_mark(f, ret);
	return r;
}

static const struct field *find(const struct field_table *t, struct slice name)
{
	for (size_t i = 0; i < t->n; i++)
		if (slice_eq(name, slice_of(t->rows[i].name)))
			return &t->rows[i];
	return NULL;
}

static int refuse_unknown(struct slice name, struct cay_err *err)
{
	char shown[CAY_ERR_FIELD_MAX];
	size_t n = name.n < sizeof(shown) ? name.n : utf8_whole(name.p, sizeof(shown) - 1);

	if (!utf8_valid(name.p, name.n))
		return cay_fail(err, CAY_E_INVALID, "a field's name is not UTF-8");
	memcpy(shown, name.p, n);
	shown[n] = 0;
	return cay_fail_field(err, CAY_E_INVALID, shown, "there is no field '%s'", shown);
}

int field_decode(const struct field_table *t, const json_t *j, struct pool *pool, void *ret,
		 struct cay_err *err)
{
	json_t *obj = (json_t *)(uintptr_t)j; /* jansson iterates without const */
	const char *key;
	json_t *value;

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_INVALID, "%s must be a JSON object", t->name);
	json_object_foreach (obj, key, value)
		if (!find(t, slice_of(key)))
			return refuse_unknown(slice_of(key), err);
	for (size_t i = 0; i < t->n; i++) {
		value = json_object_get(j, t->rows[i].name);
		int r = decode_one(&t->rows[i], value, pool, ret, err);

		if (r < 0)
			return r;
		if (t->given && value && !json_is_null(value))
			*field_given(t, ret) |= UINT64_C(1) << i;
	}
	return 0;
}

static int percent_text(struct slice s, struct pool *pool, struct slice *ret)
{
	char *out = pool_take(pool, s.n + 1, 1);
	size_t n;

	if (!out)
		return -ENOMEM;
	if (percent_decode(s.p, s.n, out, &n) < 0)
		return -EINVAL;
	*ret = (struct slice){ out, n };
	return 0;
}

/* Thousandths without a suffix are thousandths: "500" is not 500 cores. */
static int set_plain(const struct field *f, struct slice value, void *ret, struct cay_err *err)
{
	struct field number = *f;

	number.type = FIELD_U64;
	return field_set_text(&number, value, NULL, ret, err);
}

static int decode_pair(const struct field_table *t, struct slice pair, bool *seen,
		       struct pool *pool, void *ret, struct cay_err *err)
{
	struct slice name = slice_cut(&pair, '='), key, value;
	const struct field *f;
	int r;

	if (!pair.p)
		pair = SLICE("");
	r = percent_text(name, pool, &key);
	if (r >= 0)
		r = percent_text(pair, pool, &value);
	if (r == -ENOMEM)
		return field_no_room("query", pool, err);
	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, "the query is not percent-encoded text");
	f = find(t, key);
	if (!f)
		return refuse_unknown(key, err);
	if (seen[f - t->rows])
		return cay_fail_field(err, CAY_E_INVALID, f->name, "'%s' is given twice", f->name);
	seen[f - t->rows] = true;
	if (f->type == FIELD_MILLI && str_u64(value, 0, UINT64_MAX, &(uint64_t){}) == 0)
		return set_plain(f, value, ret, err);
	return field_set_text(f, value, pool, ret, err);
}

int field_decode_query(const struct field_table *t, struct slice query, struct pool *pool,
		       void *ret, struct cay_err *err)
{
	bool *seen = pool_take(pool, t->n + 1, sizeof(*seen));

	if (!seen)
		return field_no_room("query", pool, err);
	while (query.n) {
		int r = decode_pair(t, slice_cut(&query, '&'), seen, pool, ret, err);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < t->n; i++)
		if (!seen[i] && field_set_absent(&t->rows[i], ret, err) < 0)
			return -EINVAL;
	return 0;
}

int field_read(const struct field_table *t, struct slice text, const struct json_limits *limits,
	       struct pool *pool, void *ret, struct cay_err *err)
{
	auto_json j = NULL;
	int r = jr_read(text, limits, &j, err);

	return r < 0 ? r : field_decode(t, j, pool, ret, err);
}
