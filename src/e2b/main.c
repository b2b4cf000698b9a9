/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"

static void e2b_init(void *arg)
{
	struct e2b *d = arg;

	(void)uv_timer_init(&d->face.loop, &d->tick);
	d->tick.data = d;
	d->keepalive = json_pack("{s:s}", "type", "keepalive");
}

int main(int argc, char **argv)
{
	static struct e2b d;
	static const struct face_conf conf = { .program = "cay-e2b",
					       .setting = "e2b.run",
					       .socket = "e2b.sock",
					       .dir = offsetof(struct settings, e2b_dir),
					       .find_handler = e2b_find_handler,
					       .init = e2b_init,
					       .arg = &d };

	return face_main(argc, argv, &d.face, &conf);
}
