/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp.h"

static void mcp_init(void *arg)
{
	struct mcp *m = arg;

	(void)uv_timer_init(&m->face.loop, &m->progress_timer);
	m->progress_timer.data = m;
}

int main(int argc, char **argv)
{
	static struct mcp m;
	static const struct face_conf conf = { .program = "cay-mcp",
					       .setting = "mcp.run",
					       .socket = "mcp.sock",
					       .dir = offsetof(struct settings, mcp_dir),
					       .find_handler = mcp_listener_find_handler,
					       .init = mcp_init,
					       .arg = &m };

	return face_main(argc, argv, &m.face, &conf);
}
