/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

static void osb_init(void *arg)
{
	struct osb *d = arg;

	(void)uv_timer_init(&d->face.loop, &d->tick);
	d->tick.data = d;
}

int main(int argc, char **argv)
{
	static struct osb d;
	static const struct face_conf conf = { .program = "cay-opensandbox",
					       .setting = "opensandbox.run",
					       .socket = "opensandbox.sock",
					       .dir = offsetof(struct settings, opensandbox_dir),
					       .find_handler = osb_find_handler,
					       .init = osb_init,
					       .arg = &d };

	return face_main(argc, argv, &d.face, &conf);
}
