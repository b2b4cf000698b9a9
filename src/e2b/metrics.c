/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses: Cay keeps no history, so the reply is one sample, of now.  The share of the
 * CPU is that between two readings, which the operation sends two seconds apart. */
#include "base/clock.h"
#include "e2b/e2b.h"
#include "text/time.h"

static uint64_t metrics_limit(const struct e2b_request *v, const char *name)
{
	return (uint64_t)json_integer_value(
		json_object_get(json_object_get(v->kept, "limits"), name));
}

static json_int_t metrics_of(const json_t *usage, const char *name)
{
	return json_integer_value(json_object_get(usage, name));
}

static json_t *metrics_sample(const struct e2b_request *v, const json_t *usage, uint64_t now_ms)
{
	uint64_t cpu_ms = (uint64_t)metrics_of(usage, "cpu_ms") - v->uid;
	uint64_t took_ms = now_ms > v->number ? now_ms - v->number : 1;
	char at[CLK_TEXT_LEN + 1];

	clk_format_rfc3339(clk_wall_ns(&clk_system), at);
	return json_pack("{s:s,s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:I}", "timestamp", at, "timestampUnix",
			 (json_int_t)(clk_wall_ns(&clk_system) / NS_PER_S), "cpuCount",
			 (json_int_t)((metrics_limit(v, "cpu_milli") + 999) / 1000), "cpuUsedPct",
			 (double)cpu_ms * 100 / (double)took_ms, "memUsed",
			 metrics_of(usage, "memory_bytes"), "memTotal",
			 (json_int_t)metrics_limit(v, "memory_bytes"), "memCache", (json_int_t)0,
			 "diskUsed", metrics_of(usage, "disk_bytes"), "diskTotal",
			 (json_int_t)metrics_limit(v, "disk_bytes"));
}

static enum e2b_event_result on_metrics_usage(struct e2b_request *v, const json_t *usage)
{
	uint64_t now_ms = clk_boot_ns(&clk_system) / NS_PER_MS;
	json_t *sample;

	if (!v->flag) {
		v->flag = true;
		v->uid = (uint64_t)metrics_of(usage, "cpu_ms");
		v->number = now_ms;
		return E2B_EVENT_TAKEN;
	}
	sample = metrics_sample(v, usage, now_ms);
	client_call_cancel(v->call);
	v->call = NULL;
	e2b_reply(v, 200, json_pack("[o]", sample));
	return E2B_EVENT_LAST;
}

static void on_metrics_ended(struct e2b_request *v)
{
	e2b_reply(v, 200, json_array());
}

static void on_metrics_state(struct e2b_request *v)
{
	if (e2b_answer_has_ended(v)) {
		e2b_refuse(v, CAY_E_NOT_FOUND, "sandbox not found");
	} else if (!str_eq(e2b_answer_text(v, "state"), "running")) {
		e2b_reply(v, 200, json_array());
	} else {
		v->kept = json_incref(v->answer);
		e2b_call_events(v, OP_SANDBOX_USAGE, json_object(), on_metrics_usage,
				on_metrics_ended);
	}
}

void e2b_sandbox_metrics(struct e2b_request *v)
{
	e2b_call(v, OP_SANDBOX_GET, on_metrics_state, "{}");
}
