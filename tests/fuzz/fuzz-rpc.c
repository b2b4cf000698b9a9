/* SPDX-License-Identifier: Apache-2.0 */
/* A message as `cay mcp` reads it: what is passed on is one line and the same message,
 * and no header of its request has a byte that could end it. */
#include "cli/mcp/bridge-rpc.h"
#include "fuzz.h"

static void check_headers(const struct bridge_rpc *m)
{
	auto_buf out = BUF_INIT(KIB(8));
	struct cay_err err = {};
	struct slice rest;

	if (bridge_rpc_format_headers(m, "2025-11-25", &out, &err) < 0) {
		CHECK(err.code == CAY_E_TOO_LARGE);
		return;
	}
	rest = (struct slice){ buf_str(&out), out.len };
	while (rest.n) {
		struct slice line = slice_cut(&rest, '\n');

		CHECK(line.n > 5 && line.p[line.n - 1] == '\r' && line.p[0] == 'M');
		for (size_t i = 0; i < line.n - 1; i++)
			CHECK(line.p[i] >= ' ' && line.p[i] <= '~');
	}
}

static void check_line(const struct bridge_rpc *m, struct slice text)
{
	auto_buf out = BUF_INIT(RPC_MAX + 1);
	struct cay_err err = {};
	enum bridge_rpc_code code;
	auto_rpc again = {};

	CHECK(bridge_rpc_format_line(text, &out) == 0);
	CHECK(memchr(out.data, '\n', out.len) == out.data + out.len - 1);
	CHECK(bridge_rpc_parse((struct slice){ out.data, out.len - 1 }, &again, &code, &err) == 0);
	CHECK(json_equal(again.tree, m->tree));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size), version[RPC_VERSION_MAX];
	auto_buf out = BUF_INIT(KIB(64));
	struct cay_err err = {};
	enum bridge_rpc_code code;
	auto_rpc m = {};

	if (bridge_rpc_parse((struct slice){ in, size }, &m, &code, &err) == 0) {
		check_headers(&m);
		check_line(&m, (struct slice){ in, size });
		bridge_rpc_read_version(&m, version);
		CHECK(!bridge_rpc_find_cancelled_id(&m) || m.method);
		CHECK(!bridge_rpc_is_answer_to(&m, m.id) || !m.method);
	} else {
		CHECK(bridge_rpc_format_error(NULL, code, &err, "", &out) == 0 && out.len);
	}
	free(in);
	return 0;
}
