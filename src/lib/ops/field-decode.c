/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "ops/field-internal.h"
#include "text/distance.h"
#include "text/percent.h"

static struct slice field_json_text(const json_t *j)
{
	return (struct slice){ json_string_value(j), json_string_length(j) };
}

/* "argv[2]" instead of "argv" */
static void field_err_prefix_entry(const struct field *f, size_t i, struct cay_err *err)
{
	char index[32];

	if (snprintf(index, sizeof(index), "[%zu]", i) < (int)sizeof(index))
		cay_err_prefix_field(err, index);
	cay_err_prefix_field(err, f->name);
}

/* Ports may be numbers; any other entry must be text that its check accepts. */
static int field_decode_entry(const struct field *f, const json_t *j, struct arena *arena,
			      const char **at)
{
	struct slice text = field_json_text(j);
	char number[24];
	int n;

	if (f->check == CHECK_PORTS && json_is_integer(j)) {
		n = snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(j));
		if (n < 0 || n >= (int)sizeof(number))
			return -EINVAL;
		text = (struct slice){ number, (size_t)n };
	} else if (!json_is_string(j)) {
		return -EINVAL;
	}
	if (!field_check_row(f->check)->ok(text))
		return -EINVAL;
	*at = arena_strndup(arena, text.p, text.n);
	return *at ? 0 : -ENOMEM;
}

static int field_decode_texts(const struct field *f, const json_t *j, struct arena *arena,
			      struct field_texts *at, struct cay_err *err)
{
	size_t n = json_array_size(j);

	if (!json_is_array(j) || n < f->min || n > f->max)
		return field_refuse(f, err);
	at->v = arena_alloc(arena, n + 1, sizeof(*at->v));
	for (size_t i = 0; at->v && i < n; i++) {
		int r = field_decode_entry(f, json_array_get(j, i), arena, &at->v[i]);

		if (r == -ENOMEM)
			return field_fail_no_memory(f->name, arena, err);
		if (r < 0) {
			(void)cay_fail_field(
				err, CAY_E_INVALID, "", "'%s' entry %zu must be %s", f->name, i,
				f->check == CHECK_ANY ? "text" : field_check_row(f->check)->what);
			field_err_prefix_entry(f, i, err);
			return r;
		}
	}
	if (!at->v)
		return field_fail_no_memory(f->name, arena, err);
	at->n = n;
	return 0;
}

static int field_decode_map(const struct field *f, json_t *j, struct arena *arena,
			    struct field_map *at, struct cay_err *err)
{
	size_t n = json_object_size(j), i = 0;
	const char *key;
	json_t *value;

	if (!json_is_object(j) || n < f->min || n > f->max)
		return field_refuse(f, err);
	at->keys = arena_alloc(arena, n + 1, sizeof(*at->keys));
	at->values = arena_alloc(arena, n + 1, sizeof(*at->values));
	if (!at->keys || !at->values)
		return field_fail_no_memory(f->name, arena, err);
	json_object_foreach (j, key, value) {
		bool gone = f->patch && json_is_null(value);

		if (!field_check_key(f->check, slice_of(key)) ||
		    (!gone && (!json_is_string(value) ||
			       !field_check_row(f->check)->ok(field_json_text(value)))))
			return cay_fail_field(err, CAY_E_INVALID, f->name,
					      "'%s' entry '%.64s' must be text%s%s", f->name, key,
					      f->check == CHECK_ANY ? "" : ", ",
					      field_check_row(f->check)->what);
		at->keys[i] = arena_strndup(arena, key, strlen(key));
		if (!gone)
			at->values[i] = arena_strndup(arena, field_json_text(value).p,
						      field_json_text(value).n);
		if (!at->keys[i] || (!gone && !at->values[i]))
			return field_fail_no_memory(f->name, arena, err);
		i++;
	}
	at->n = n;
	return 0;
}

static int field_decode_list(const struct field *f, const json_t *j, struct arena *arena,
			     struct field_list *at, struct cay_err *err)
{
	size_t n = json_array_size(j);

	if (!json_is_array(j) || n < f->min || n > f->max)
		return field_refuse(f, err);
	at->v = arena_alloc(arena, n ? n : 1, f->sub->size);
	if (!at->v)
		return field_fail_no_memory(f->name, arena, err);
	for (size_t i = 0; i < n; i++) {
		int r = field_decode(f->sub, json_array_get(j, i), arena,
				     (char *)at->v + i * f->sub->size, err);

		if (r < 0) {
			field_err_prefix_entry(f, i, err);
			return r;
		}
	}
	at->n = n;
	return 0;
}

/* Numbers as JSON has them; quantities and everything else go by text. */
static int field_decode_integer(const struct field *f, const json_t *j, void *at,
				struct cay_err *err)
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

static int field_decode_bool(const struct field *f, const json_t *j, bool *at, struct cay_err *err)
{
	if (!json_is_boolean(j))
		return field_refuse(f, err);
	*at = json_is_true(j);
	return 0;
}

static int field_decode_string(const struct field *f, const json_t *j, struct arena *arena,
			       void *ret, struct cay_err *err)
{
	if (!json_is_string(j))
		return field_refuse(f, err);
	return field_set_from_text(f, field_json_text(j), arena, ret, err);
}

static int field_decode_object(const struct field *f, const json_t *j, struct arena *arena,
			       void *at, struct cay_err *err)
{
	int r = field_decode(f->sub, j, arena, at, err);

	if (r < 0)
		cay_err_prefix_field(err, f->name);
	return r;
}

static int field_decode_present(const struct field *f, json_t *j, struct arena *arena, void *ret,
				struct cay_err *err)
{
	void *at = (char *)ret + f->offset;

	switch (f->type) {
	case FIELD_BOOL:
		return field_decode_bool(f, j, at, err);
	case FIELD_U64:
		return field_decode_integer(f, j, at, err);
	case FIELD_BYTES:
	case FIELD_MILLI:
		return json_is_string(j) ? field_decode_string(f, j, arena, ret, err)
					 : field_decode_integer(f, j, at, err);
	case FIELD_TEXT:
	case FIELD_ENUM:
	case FIELD_ID:
	case FIELD_TIME:
		return field_decode_string(f, j, arena, ret, err);
	case FIELD_TEXTS:
		return field_decode_texts(f, j, arena, at, err);
	case FIELD_MAP:
		return field_decode_map(f, j, arena, at, err);
	case FIELD_OBJECT:
		return field_decode_object(f, j, arena, at, err);
	case FIELD_LIST:
		return field_decode_list(f, j, arena, at, err);
	case FIELD_NUM_TYPES:
		break;
	}
	assert(false);
	return -EINVAL;
}

static int field_decode_member(const struct field *f, json_t *j, struct arena *arena, void *ret,
			       struct cay_err *err)
{
	int r;

	if (!j || json_is_null(j))
		return field_set_absent(f, ret, err);
	r = field_decode_present(f, j, arena, ret, err);
	if (r >= 0)
		field_mark_present(f, ret);
	return r;
}

static const struct field *field_table_find(const struct field_table *t, struct slice name)
{
	for (size_t i = 0; i < t->n; i++)
		if (slice_eq(name, slice_of(t->rows[i].name)))
			return &t->rows[i];
	return NULL;
}

static const char *field_find_similar(const struct field_table *t, struct slice name)
{
	const char *best = NULL;
	unsigned least = 3;

	for (size_t i = 0; i < t->n; i++) {
		unsigned d = str_edit_distance(name, slice_of(t->rows[i].name));

		if (d < least && d < name.n) {
			least = d;
			best = t->rows[i].name;
		}
	}
	return best;
}

/* "argv, shell, cwd, ..." */
static void field_list_names(const struct field_table *t, char *to, size_t room)
{
	static const char rest[] = ", ...";
	size_t at = 0;

	to[0] = 0;
	for (size_t i = 0; i < t->n; i++) {
		const char *name = t->rows[i].name;
		bool fits = at + strlen(name) + 2 + sizeof(rest) <= room;
		int n = fits ? snprintf(to + at, room - at, "%s%s", at ? ", " : "", name)
			     : snprintf(to + at, room - at, "%s", rest);

		if (!fits || n < 0)
			break;
		at += (size_t)n;
	}
}

static int field_refuse_unknown(const struct field_table *t, struct slice name, struct cay_err *err)
{
	char shown[CAY_ERR_FIELD_MAX], all[CAY_ERR_HINT_MAX - 64];
	const char *near = field_find_similar(t, name);
	size_t n =
		name.n < sizeof(shown) ? name.n : utf8_whole_prefix_len(name.p, sizeof(shown) - 1);

	if (!utf8_is_valid(name.p, name.n))
		return cay_fail(err, CAY_E_INVALID, "a field's name is not UTF-8");
	memcpy(shown, name.p, n);
	shown[n] = 0;
	if (str_eq(shown, "network_mode")) { /* other products have it */
		(void)cay_fail_field(err, CAY_E_UNSUPPORTED, shown,
				     "a sandbox never shares the network of the node");
		cay_err_hint(err, "leave it out; `egress` says where a sandbox may connect");
		return -ENOTSUP;
	}
	(void)cay_fail_field(err, CAY_E_INVALID, shown, "there is no field '%s'", shown);
	field_list_names(t, all, sizeof(all));
	cay_err_hint(err, "%s%s%sfields: %s", near ? "did you mean '" : "", near ? near : "",
		     near ? "'? " : "", all);
	return -EINVAL;
}

int field_decode(const struct field_table *t, const json_t *j, struct arena *arena, void *ret,
		 struct cay_err *err)
{
	json_t *obj = (json_t *)(uintptr_t)j; /* jansson iterates without const */
	const char *key;
	json_t *value;

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_INVALID, "%s must be a JSON object", t->name);
	json_object_foreach (obj, key, value)
		if (!field_table_find(t, slice_of(key)))
			return field_refuse_unknown(t, slice_of(key), err);
	for (size_t i = 0; i < t->n; i++) {
		value = json_object_get(j, t->rows[i].name);
		int r = field_decode_member(&t->rows[i], value, arena, ret, err);

		if (r < 0)
			return r;
		if (t->given && value && !json_is_null(value))
			*field_given_bits(t, ret) |= UINT64_C(1) << i;
	}
	return 0;
}

static int field_percent_decode(struct slice s, struct arena *arena, struct slice *ret)
{
	char *out = arena_alloc(arena, s.n + 1, 1);
	size_t n;

	if (!out)
		return -ENOMEM;
	if (percent_decode(s.p, s.n, out, &n) < 0)
		return -EINVAL;
	*ret = (struct slice){ out, n };
	return 0;
}

/* Thousandths without a suffix are thousandths: "500" is not 500 cores. */
static int field_set_plain_number(const struct field *f, struct slice value, void *ret,
				  struct cay_err *err)
{
	struct field number = *f;

	number.type = FIELD_U64;
	return field_set_from_text(&number, value, NULL, ret, err);
}

static int field_decode_query_pair(const struct field_table *t, struct slice pair, bool *seen,
				   struct arena *arena, void *ret, struct cay_err *err)
{
	struct slice name = slice_cut(&pair, '='), key, value;
	const struct field *f;
	int r;

	if (!pair.p)
		pair = SLICE("");
	r = field_percent_decode(name, arena, &key);
	if (r >= 0)
		r = field_percent_decode(pair, arena, &value);
	if (r == -ENOMEM)
		return field_fail_no_memory("query", arena, err);
	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, "the query is not percent-encoded text");
	f = field_table_find(t, key);
	if (!f)
		return field_refuse_unknown(t, key, err);
	if (seen[f - t->rows])
		return cay_fail_field(err, CAY_E_INVALID, f->name, "'%s' is given twice", f->name);
	seen[f - t->rows] = true;
	if (f->type == FIELD_MILLI && str_parse_u64(value, 0, UINT64_MAX, &(uint64_t){}) == 0)
		return field_set_plain_number(f, value, ret, err);
	return field_set_from_text(f, value, arena, ret, err);
}

int field_decode_query(const struct field_table *t, struct slice query, struct arena *arena,
		       void *ret, struct cay_err *err)
{
	bool *seen = arena_alloc(arena, t->n + 1, sizeof(*seen));

	if (!seen)
		return field_fail_no_memory("query", arena, err);
	while (query.n) {
		int r = field_decode_query_pair(t, slice_cut(&query, '&'), seen, arena, ret, err);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < t->n; i++)
		if (!seen[i] && field_set_absent(&t->rows[i], ret, err) < 0)
			return -EINVAL;
	return 0;
}

int field_decode_text(const struct field_table *t, struct slice text,
		      const struct json_limits *limits, struct arena *arena, void *ret,
		      struct cay_err *err)
{
	auto_json j = NULL;
	int r = json_parse(text, limits, &j, err);

	return r < 0 ? r : field_decode(t, j, arena, ret, err);
}
