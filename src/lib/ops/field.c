/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/field.h"

#include <assert.h>
#include <inttypes.h>

#include "ops/field-internal.h"
#include "ops/types.h"
#include "text/port-range.h"
#include "text/quantity.h"
#include "text/sandbox-name.h"
#include "text/time.h"

static const char *const type_names[] = {
	[FIELD_BOOL] = "true or false",
	[FIELD_U64] = "a whole number",
	[FIELD_BYTES] = "a number of bytes or a quantity such as \"512Mi\"",
	[FIELD_MILLI] = "a number of thousandths or a quantity such as \"500m\"",
	[FIELD_TEXT] = "text",
	[FIELD_ENUM] = "one of",
	[FIELD_ID] = "an id",
	[FIELD_TIME] = "a time such as 2026-11-15T01:50:43Z",
	[FIELD_TEXTS] = "a list of texts",
	[FIELD_MAP] = "an object of texts",
	[FIELD_OBJECT] = "an object",
	[FIELD_LIST] = "a list of objects",
};
static_assert(ARRAY_SIZE(type_names) == FIELD_NUM_TYPES);

static bool field_check_any(struct slice)
{
	return true;
}

static bool field_check_path(struct slice s)
{
	return s.n && s.p[0] == '/';
}

static bool field_check_word(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

/* A path below the image's zoneinfo, and never one that leaves it. */
static bool field_check_time_zone(struct slice s)
{
	size_t part = 0; /* how long it is */

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '/' ? !part : !ascii_is_alnum(c) && c != '_' && c != '+' && c != '-')
			return false;
		part = c == '/' ? 0 : part + 1;
	}
	return part > 0;
}

static bool field_check_file_name(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			return false;
	while (s.p) {
		struct slice part = slice_cut(&s, '/');

		if (!part.n || slice_eq(part, SLICE(".")) || slice_eq(part, SLICE("..")))
			return false;
	}
	return true;
}

static bool field_check_env_name(struct slice s)
{
	if (!s.n || ascii_is_digit(s.p[0]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alnum(s.p[i]) && s.p[i] != '_')
			return false;
	return true;
}

static const struct field_check_row checks[] = {
	[CHECK_ANY] = { NULL, "", field_check_any },
	[CHECK_NAME] = { "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
			 "lower-case letters, digits and inner '-'", str_is_dns_label },
	[CHECK_SANDBOX] = { "^(?![.])(?!sb[0-9a-hjkmnp-tv-z]{24}$)[^/\\u0000-\\u001f\\u007f-"
			    "\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-"
			    "\\u206f\\ufdd0-\\ufdef\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff]+$",
			    "visible characters without '/', not first a '.', and not as an id is",
			    sandbox_name_is_valid },
	[CHECK_LABEL] = { "^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$",
			  "a Kubernetes label", str_is_label_value },
	[CHECK_ENV] = { NULL, "named by letters, digits and '_'", field_check_any },
	[CHECK_PATH] = { "^/", "an absolute path", field_check_path },
	[CHECK_WORD] = { "^[!-~]+$", "printable ASCII without spaces", field_check_word },
	[CHECK_ZONE] = { "^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$",
			 "the name of a time zone such as Asia/Shanghai", field_check_time_zone },
	[CHECK_FILE] = { "^(?!\\.{0,2}(/|$))(?!.*/\\.{0,2}(/|$))[^\\u0000-\\u001f\\u007f]+$",
			 "a relative path without control characters, '.' and '..'",
			 field_check_file_name },
	[CHECK_PORTS] = { "^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$",
			  "a port from 1 to 65535 or a range such as \"8000-8010\"",
			  port_range_is_valid },
};
static_assert(ARRAY_SIZE(checks) == CHECK_NUM);

const char *field_type_name(enum field_type type)
{
	return type_names[type];
}

const struct field_check_row *field_check_row(enum field_check check)
{
	return &checks[check];
}

bool field_check_key(enum field_check check, struct slice key)
{
	if (check == CHECK_LABEL)
		return str_is_label_key(key);
	if (check == CHECK_ENV)
		return field_check_env_name(key);
	return key.n > 0;
}

static int field_describe_range(const struct field *f, struct buf *b)
{
	switch (f->type) {
	case FIELD_U64:
	case FIELD_BYTES:
	case FIELD_MILLI:
		return buf_printf(b, " from %" PRIu64 " to %" PRIu64, f->min, f->max);
	case FIELD_TEXT:
		return buf_printf(b, " of %" PRIu64 " to %" PRIu64 " bytes", f->min, f->max);
	case FIELD_TEXTS:
	case FIELD_MAP:
	case FIELD_LIST:
		return buf_printf(b, " with %" PRIu64 " to %" PRIu64 " entries", f->min, f->max);
	case FIELD_ID:
		return buf_printf(b, " that begins with \"%s\"", id_noun_prefix(f->noun));
	case FIELD_ENUM:
		for (unsigned i = 0; f->choices[i]; i++)
			if (buf_printf(b, "%s \"%s\"", i ? "," : "", f->choices[i]) < 0)
				return -ENOBUFS;
		return 0;
	case FIELD_BOOL:
	case FIELD_TIME:
	case FIELD_OBJECT:
	case FIELD_NUM_TYPES:
		break;
	}
	return 0;
}

int field_refuse(const struct field *f, struct cay_err *err)
{
	auto_buf want = BUF_INIT(CAY_ERR_MSG_MAX);
	int r;

	assert(f->type < FIELD_NUM_TYPES);
	r = buf_puts(&want, type_names[f->type]);
	if (r >= 0)
		r = field_describe_range(f, &want);
	if (r >= 0 && f->check != CHECK_ANY)
		r = buf_printf(&want, ", %s", checks[f->check].what);
	if (r < 0)
		buf_clear(&want);
	return cay_fail_field(err, CAY_E_INVALID, f->name, "'%s' must be %s", f->name,
			      want.len ? want.data : type_names[f->type]);
}

int field_fail_no_memory(const char *name, const struct arena *arena, struct cay_err *err)
{
	if (arena->full)
		return cay_fail_field(err, CAY_E_TOO_LARGE, name, "'%s' is too large", name);
	return cay_no_memory(err);
}

void field_mark_present(const struct field *f, void *ret)
{
	if (f->has)
		*((bool *)ret + (f->has - 1)) = true;
}

int field_set_absent(const struct field *f, void *ret, struct cay_err *err)
{
	void *at = (char *)ret + f->offset;

	if (f->required)
		return cay_fail_field(err, CAY_E_INVALID, f->name, "'%s' is missing", f->name);
	if (f->type == FIELD_U64 || f->type == FIELD_BYTES || f->type == FIELD_MILLI)
		memcpy(at, &f->preset, sizeof(f->preset));
	else if (f->type == FIELD_ENUM)
		*(unsigned *)at = (unsigned)f->preset;
	else if (f->type == FIELD_BOOL)
		*(bool *)at = f->preset != 0;
	/* an object left out still has its members' defaults */
	for (size_t i = 0; f->type == FIELD_OBJECT && !f->has && i < f->sub->n; i++)
		if (field_set_absent(&f->sub->rows[i], at, err) < 0)
			return -EINVAL;
	return 0;
}

static int field_set_number(const struct field *f, struct slice s, void *at)
{
	uint64_t v;
	int r;

	if (f->type == FIELD_BYTES)
		r = quantity_parse_bytes(s, &v);
	else if (f->type == FIELD_MILLI)
		r = quantity_parse_milli(s, &v);
	else if (f->type == FIELD_TIME)
		r = time_parse(s, &v);
	else
		r = str_parse_u64(s, 0, UINT64_MAX, &v);
	if (r < 0)
		return r;
	if (f->type != FIELD_TIME && (v < f->min || v > f->max))
		return -ERANGE;
	memcpy(at, &v, sizeof(v));
	return 0;
}

static int field_set_string(const struct field *f, struct slice s, struct arena *arena,
			    const char **at)
{
	if (s.n < f->min || s.n > f->max || memchr(s.p, 0, s.n) || !utf8_is_valid(s.p, s.n) ||
	    !checks[f->check].ok(s))
		return -EINVAL;
	*at = arena_strndup(arena, s.p, s.n);
	return *at ? 0 : -ENOMEM;
}

static int field_set_bool(struct slice s, bool *at)
{
	*at = slice_eq(s, SLICE("true"));
	return *at || slice_eq(s, SLICE("false")) ? 0 : -EINVAL;
}

/* Other products take these; docs/adr/0144 says why no row of the keeper's table is of them. */
static bool field_is_foreign_runtime(const struct field *f, struct slice s)
{
	static const char *const names[] = { "docker", "podman", "containerd",  "runsc", "gvisor",
					     "kata",   "krun",   "firecracker", NULL };
	unsigned i;

	return f->choices == runtime_names && str_find_choice(s, names, &i) >= 0;
}

static int field_refuse_runtime(const struct field *f, struct slice s, struct cay_err *err)
{
	(void)cay_fail_field(err, CAY_E_UNSUPPORTED, f->name,
			     "this node starts no sandbox by '%.*s'", (int)s.n, s.p);
	cay_err_hint(err, slice_eq(s, SLICE("docker"))
				  ? "leave 'runtime' out: images of Docker run as they are, by crun"
				  : "leave 'runtime' out, or give one of those that `cay doctor` "
				    "lists");
	return -ENOTSUP;
}

int field_set_from_text(const struct field *f, struct slice s, struct arena *arena, void *ret,
			struct cay_err *err)
{
	void *at = (char *)ret + f->offset;
	int r = -EINVAL;

	switch (f->type) {
	case FIELD_U64:
	case FIELD_BYTES:
	case FIELD_MILLI:
	case FIELD_TIME:
		r = field_set_number(f, s, at);
		break;
	case FIELD_BOOL:
		r = field_set_bool(s, at);
		break;
	case FIELD_ENUM:
		r = str_find_choice(s, f->choices, at);
		break;
	case FIELD_TEXT:
		r = field_set_string(f, s, arena, at);
		break;
	case FIELD_ID:
		r = id_parse(f->noun, s, at);
		break;
	case FIELD_TEXTS:
	case FIELD_MAP:
	case FIELD_OBJECT:
	case FIELD_LIST:
	case FIELD_NUM_TYPES:
		break;
	}
	if (r == -ENOMEM)
		return field_fail_no_memory(f->name, arena, err);
	if (r < 0 && f->type == FIELD_ENUM && field_is_foreign_runtime(f, s))
		return field_refuse_runtime(f, s, err);
	if (r < 0)
		return field_refuse(f, err);
	field_mark_present(f, ret);
	return 0;
}
