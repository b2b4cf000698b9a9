/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/entrypoint.h"

#include <errno.h>
#include <string.h>

#include "base/endian.h"

#define MAGIC UINT32_C(0x45594143) /* "CAYE" */
#define SIGNAL_MAX 64

void entrypoint_status_encode(const struct entrypoint_status *e,
			      uint8_t out[static ENTRYPOINT_STATUS_SIZE])
{
	le32_put(out, MAGIC);
	out[4] = e->state;
	out[5] = e->signal;
	out[6] = e->exit_code;
	out[7] = 0;
	memcpy(out + 8, &e->exec, sizeof(e->exec));
	le64_put(out + 24, 0);
}

static bool entrypoint_status_is_valid(const struct entrypoint_status *e)
{
	if (e->state != ENTRYPOINT_RUNNING && e->state != ENTRYPOINT_ENDED)
		return false;
	if (e->state == ENTRYPOINT_RUNNING && (e->signal || e->exit_code))
		return false;
	return e->signal <= SIGNAL_MAX && !(e->signal && e->exit_code);
}

int entrypoint_status_decode(const uint8_t *in, size_t n, struct entrypoint_status *ret)
{
	struct entrypoint_status e;

	if (n != ENTRYPOINT_STATUS_SIZE || le32_get(in) != MAGIC || in[7] || le64_get(in + 24))
		return -EPROTO;
	e.state = in[4];
	e.signal = in[5];
	e.exit_code = in[6];
	memcpy(&e.exec, in + 8, sizeof(e.exec));
	if (!entrypoint_status_is_valid(&e) || !id_is_valid(&e.exec, ID_EXEC))
		return -EPROTO;
	*ret = e;
	return 0;
}
