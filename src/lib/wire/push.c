/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/push.h"

#include <errno.h>
#include <string.h>

#include "base/endian.h"

/* Members each kind of record carries; all others are zero. */
static const struct {
	bool known;
	uint16_t low, values; /* of value */
	bool number, time;
	bool port; /* number is one, with PUSH_PUBLIC_PORTS */
	bool flag; /* number is 0 or 1 */
	bool pair; /* value is one of the pairs that number has */
	enum id_noun id;
	bool no_id; /* or none */
	bool tenant;
	uint8_t secret; /* bytes of it */
} kinds[PUSH_KINDS] = {
	[PUSH_HELLO] = { .known = true, .values = 1, .number = true, .secret = 32 },
	[PUSH_ALL] = { .known = true, .values = 1 },
	[PUSH_SANDBOX] = { .known = true,
			   .values = PUSH_STATES,
			   .number = true,
			   .time = true,
			   .port = true,
			   .id = ID_SANDBOX,
			   .tenant = true,
			   .secret = PUSH_GROUP_TAG + PUSH_NAME_TAG },
	[PUSH_KEY] = { .known = true,
		       .low = 1,
		       .values = PUSH_SCOPES,
		       .number = true,
		       .flag = true,
		       .time = true,
		       .id = ID_KEY,
		       .tenant = true,
		       .secret = 32 },
	[PUSH_KEY_GROUP] = { .known = true, .values = 1, .id = ID_KEY, .secret = 32 },
	[PUSH_KEY_REMOVED] = { .known = true, .values = 1, .id = ID_KEY },
	[PUSH_TOKEN_KEY] = { .known = true,
			     .low = 1,
			     .values = 256,
			     .number = true,
			     .time = true,
			     .secret = 32 },
	[PUSH_END] = { .known = true, .values = 1 },
	[PUSH_HEARTBEAT] = { .known = true, .values = 1 },
	[PUSH_KEY_USED] = { .known = true, .values = 1, .id = ID_KEY },
	[PUSH_REFUSED] = { .known = true,
			   .values = PUSH_REFUSALS,
			   .number = true,
			   .id = ID_KEY,
			   .no_id = true,
			   .secret = 16 },
	[PUSH_COUNT] = { .known = true, .values = 1, .number = true, .time = true },
	[PUSH_REVOKED] = { .known = true,
			   .values = PUSH_REVOKED_MAX,
			   .id = ID_SANDBOX,
			   .secret = 8 },
	[PUSH_EXPORTS] = { .known = true,
			   .values = PUSH_EXPORTS_MAX / 2,
			   .number = true,
			   .pair = true,
			   .id = ID_SANDBOX,
			   .secret = 2 * PUSH_EXPORT_TAG },
	[PUSH_BUSY] = { .known = true, .values = 1, .number = true, .id = ID_SANDBOX },
};

void push_encode(const struct push *p, uint8_t out[static PUSH_SIZE])
{
	out[0] = (uint8_t)p->kind;
	out[1] = p->value;
	le16_put(out + 2, 0);
	le32_put(out + 4, p->number);
	le64_put(out + 8, p->time);
	memcpy(out + 16, &p->id, sizeof(p->id));
	memcpy(out + 32, &p->tenant, sizeof(p->tenant));
	memcpy(out + 48, p->secret, sizeof(p->secret));
}

static bool push_bytes_are_zero(const uint8_t *p, size_t n)
{
	uint8_t any = 0;

	for (size_t i = 0; i < n; i++)
		any |= p[i];
	return !any;
}

static bool push_id_decode(const uint8_t *in, enum id_noun noun, struct id *ret)
{
	memcpy(ret, in, sizeof(*ret));
	return noun ? id_is_valid(ret, noun) : push_bytes_are_zero(in, sizeof(*ret));
}

int push_decode(const uint8_t in[static PUSH_SIZE], struct push *ret)
{
	unsigned kind = in[0], value = in[1];
	struct push p = { .value = in[1], .number = le32_get(in + 4), .time = le64_get(in + 8) };
	uint32_t port;

	if (kind >= PUSH_KINDS || !kinds[kind].known || le16_get(in + 2))
		return -EPROTO;
	p.kind = (enum push_kind)kind;
	if (value < kinds[kind].low || value >= kinds[kind].values)
		return -EPROTO;
	if ((p.number && !kinds[kind].number) || (p.time && !kinds[kind].time))
		return -EPROTO;
	port = p.number & ~PUSH_PUBLIC_PORTS;
	if (kinds[kind].port && (!port || port > UINT16_MAX))
		return -EPROTO;
	if (kinds[kind].flag && p.number > 1)
		return -EPROTO;
	if (kinds[kind].pair &&
	    (p.number > PUSH_EXPORTS_MAX || value > (p.number ? (p.number - 1) / 2 : 0)))
		return -EPROTO;
	if (!(kinds[kind].no_id && push_id_decode(in + 16, ID_NONE, &p.id)) &&
	    !push_id_decode(in + 16, kinds[kind].id, &p.id))
		return -EPROTO;
	if (!push_id_decode(in + 32, kinds[kind].tenant ? ID_TENANT : ID_NONE, &p.tenant))
		return -EPROTO;
	if (!push_bytes_are_zero(in + 48 + kinds[kind].secret,
				 sizeof(p.secret) - kinds[kind].secret))
		return -EPROTO;
	memcpy(p.secret, in + 48, sizeof(p.secret));
	*ret = p;
	return 0;
}
