/* SPDX-License-Identifier: Apache-2.0 */
#include "init/kernel/kernel-event.h"

#include <errno.h>
#include <string.h>

static const struct json_limits kernel_json_limits = { KERNEL_FRAME_MAX, 8, 65536 };

static int kernel_event_decode(struct kernel_event *e, char type, const json_t *j)
{
	const json_t *count;

	switch (type) {
	case 'R':
		e->type = KERNEL_EVENT_RESULT;
		return field_decode(&kernel_result_table, j, &e->arena, &e->result, NULL);
	case 'E':
		e->type = KERNEL_EVENT_EXCEPTION;
		return field_decode(&kernel_exception_table, j, &e->arena, &e->exception, NULL);
	case 'U':
		e->type = KERNEL_EVENT_CLEAR;
		e->wait = json_is_true(json_object_get(j, "wait"));
		return json_is_object(j) ? 0 : -EPROTO;
	default:
		e->type = KERNEL_EVENT_COUNT;
		count = json_object_get(j, "execution_count");
		e->execution_count = (uint64_t)json_integer_value(count);
		return json_is_integer(count) && json_integer_value(count) >= 0 ? 0 : -EPROTO;
	}
}

int kernel_event_new(const struct kernel_frame *f, struct kernel_event **ret)
{
	struct kernel_event *e = calloc(1, sizeof(*e));
	auto_json json = NULL;
	int r;

	if (!e)
		return -ENOMEM;
	/* each text again, rounded up, and a pointer to each */
	e->arena = ARENA_INIT_SMALL(2 * f->payload.n + KIB(16));
	r = json_parse(f->payload, &kernel_json_limits, &json, NULL);
	if (r >= 0)
		r = kernel_event_decode(e, f->type, json);
	if (r < 0) {
		kernel_event_free(e);
		return r == -ENOMEM || r == -EPROTO ? r : json_is_object(json) ? -EINVAL : -EPROTO;
	}
	e->size = sizeof(*e) + arena_get_size(&e->arena);
	*ret = e;
	return 0;
}

void kernel_event_free(struct kernel_event *e)
{
	arena_fini(&e->arena);
	free(e);
}

const char *kernel_event_name(const struct output_event *base)
{
	static const char *const names[] = {
		[KERNEL_EVENT_RESULT] = "result",
		[KERNEL_EVENT_EXCEPTION] = "exception",
		[KERNEL_EVENT_CLEAR] = "clear",
		[KERNEL_EVENT_COUNT] = "count",
	};

	return names[((const struct kernel_event *)base)->type];
}

void kernel_event_write(const struct output_event *base, struct jw *w)
{
	const struct kernel_event *e = (const struct kernel_event *)base;

	jw_object_begin(w, NULL);
	switch (e->type) {
	case KERNEL_EVENT_RESULT:
		field_encode(&kernel_result_table, "result", &e->result, w);
		break;
	case KERNEL_EVENT_EXCEPTION:
		field_encode(&kernel_exception_table, "exception", &e->exception, w);
		break;
	case KERNEL_EVENT_CLEAR:
		jw_object_begin(w, "clear");
		jw_bool(w, "wait", e->wait);
		jw_end(w);
		break;
	case KERNEL_EVENT_COUNT:
		jw_u64(w, "execution_count", e->execution_count);
		break;
	}
	jw_end(w);
}

static void kernel_report_copy(const json_t *j, const char *key, char *to, size_t size)
{
	const json_t *text = json_object_get(j, key);
	size_t n = json_string_length(text);

	if (json_is_string(text) && n < size)
		memcpy(to, json_string_value(text), n + 1);
}

int kernel_report_read(const struct kernel_frame *f, struct kernel_report *ret)
{
	auto_json json = NULL;
	int r = json_parse(f->payload, &kernel_json_limits, &json, NULL);

	*ret = (struct kernel_report){};
	if (r < 0 || !json_is_object(json))
		return -EPROTO;
	kernel_report_copy(json, "version", ret->version, sizeof(ret->version));
	kernel_report_copy(json, "implementation", ret->implementation,
			   sizeof(ret->implementation));
	kernel_report_copy(json, "cwd", ret->cwd, sizeof(ret->cwd));
	ret->is_error = json_text_eq(json_object_get(json, "status"), "error");
	return 0;
}
