/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/credential-message.h"

#include <errno.h>
#include <string.h>

#include "wire/broker-message.h"

static_assert(CREDENTIAL_NAME_SIZE == BROKER_CREDENTIAL_SIZE &&
	      CREDENTIAL_HOST_SIZE == BROKER_HOST_SIZE);

static const struct {
	bool from_cayd, from_broker, named, whole;
} credential_messages[CREDENTIAL_MSG_NUM] = {
	[CREDENTIAL_MSG_HELLO] = { .from_cayd = true, .from_broker = true },
	[CREDENTIAL_MSG_ALL] = { .from_cayd = true },
	[CREDENTIAL_MSG_PUT] = { .from_cayd = true, .named = true, .whole = true },
	[CREDENTIAL_MSG_GONE] = { .from_cayd = true, .named = true },
	[CREDENTIAL_MSG_END] = { .from_cayd = true },
	[CREDENTIAL_MSG_APPLIED] = { .from_broker = true, .named = true },
	[CREDENTIAL_MSG_CLOSED] = { .from_broker = true, .named = true },
};

struct credential_message credential_message_init(enum credential_message_kind kind)
{
	return (struct credential_message){ .magic = CREDENTIAL_MAGIC,
					    .kind = (uint16_t)kind,
					    .number = kind == CREDENTIAL_MSG_HELLO ? CREDENTIAL_ABI
										   : 0 };
}

/* What HTTP/1.1 and this program use themselves; in lower case. */
static const char *const headers_of_http[] = {
	"host",
	"connection",
	"keep-alive",
	"te",
	"trailer",
	"transfer-encoding",
	"content-length",
	"expect",
	"accept-encoding",
	"upgrade",
	"cookie",
	"range",
	"http2-settings",
};

static bool credential_text_equals(struct slice s, const char *lower)
{
	size_t i = 0;

	while (i < s.n && lower[i] && ascii_to_lower(s.p[i]) == lower[i])
		i++;
	return i == s.n && !lower[i];
}

bool credential_header_is_valid(struct slice name)
{
	if (!name.n || name.n >= CREDENTIAL_HEADER_SIZE)
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alnum(name.p[i]) && name.p[i] != '-')
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(headers_of_http); i++)
		if (credential_text_equals(name, headers_of_http[i]))
			return false;
	return name.n < 6 || !credential_text_equals((struct slice){ name.p, 6 }, "proxy-");
}

/* The name of a member of a query. */
static bool credential_member_is_valid(struct slice name)
{
	if (!name.n || name.n >= CREDENTIAL_HEADER_SIZE)
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alnum(name.p[i]) && name.p[i] != '-' && name.p[i] != '_' &&
		    name.p[i] != '.')
			return false;
	return true;
}

bool credential_scope_is_valid(struct slice scope)
{
	struct slice service = scope, region = slice_cut(&service, '/');

	for (size_t i = 0; i < scope.n; i++)
		if (!ascii_is_lower(scope.p[i]) && !ascii_is_digit(scope.p[i]) &&
		    scope.p[i] != '-' && scope.p + i != region.p + region.n)
			return false;
	return region.n && service.n && scope.n < CREDENTIAL_HEADER_SIZE;
}

static bool credential_text_is_printable(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] > '~')
			return false;
	return true;
}

bool credential_pattern_is_valid(struct slice pattern)
{
	size_t places = 0;

	for (size_t i = 0; i + 1 < pattern.n; i++)
		places += pattern.p[i] == '{' && pattern.p[i + 1] == '}';
	return places == 1 && pattern.n < CREDENTIAL_PATTERN_SIZE &&
	       credential_text_is_printable(pattern) && pattern.p[0] != ' ' &&
	       pattern.p[pattern.n - 1] != ' ';
}

const char *credential_value_refusal(enum credential_kind kind, struct slice value)
{
	struct slice password = value, user = slice_cut(&password, ':');

	if (value.n < CREDENTIAL_VALUE_MIN || value.n > CREDENTIAL_VALUE_MAX)
		return "expected 8 to 4096 bytes";
	if (!credential_text_is_printable(value) || value.p[0] == ' ' ||
	    value.p[value.n - 1] == ' ')
		return "expected printable ASCII without a space at the ends";
	if (kind == CREDENTIAL_BASIC &&
	    (!password.p || !user.n || password.n < CREDENTIAL_VALUE_MIN))
		return "expected USER:PASSWORD, with at least 8 bytes of password";
	if (kind == CREDENTIAL_SIGV4 &&
	    (!password.p || !user.n || password.n < CREDENTIAL_VALUE_MIN ||
	     memchr(value.p, ' ', value.n) || memchr(user.p, '/', user.n) ||
	     memchr(user.p, ',', user.n) || memchr(password.p, ':', password.n)))
		return "expected KEY_ID:SECRET, with at least 8 bytes of secret";
	return NULL;
}

static struct slice credential_member_text(const char *member, size_t size)
{
	size_t n = strnlen(member, size);

	for (size_t i = n; i < size; i++)
		if (member[i])
			return (struct slice){};
	return n < size ? (struct slice){ member, n } : (struct slice){};
}

static bool credential_hosts_are_valid(const struct credential_message *m)
{
	if (m->n_hosts < 1 || m->n_hosts > CREDENTIAL_HOSTS_MAX)
		return false;
	for (size_t i = 0; i < CREDENTIAL_HOSTS_MAX; i++) {
		struct slice host = credential_member_text(m->hosts[i], CREDENTIAL_HOST_SIZE);

		if (!host.p || (host.n > 0) != (i < m->n_hosts))
			return false;
		for (size_t k = 0; k < host.n; k++)
			if (!ascii_is_lower(host.p[k]) && !ascii_is_digit(host.p[k]) &&
			    host.p[k] != '-' && host.p[k] != '_' && host.p[k] != '.')
				return false;
	}
	return true;
}

static bool credential_is_whole(const struct credential_message *m)
{
	struct slice header = credential_member_text(m->header, sizeof(m->header));
	struct slice pattern = credential_member_text(m->pattern, sizeof(m->pattern));

	if (!header.p || !pattern.p || m->form >= CREDENTIAL_NUM_KINDS ||
	    !credential_hosts_are_valid(m) || m->n_sealed > CREDENTIAL_SEALED_MAX || !m->n_sealed)
		return false;
	if (m->form == CREDENTIAL_HEADER)
		return credential_header_is_valid(header) && credential_pattern_is_valid(pattern);
	if (m->form == CREDENTIAL_QUERY)
		return credential_member_is_valid(header) && !pattern.n;
	if (m->form == CREDENTIAL_SIGV4)
		return credential_scope_is_valid(header) && !pattern.n;
	return !header.n && !pattern.n;
}

int credential_message_check(const void *msg, size_t n, bool from_cayd)
{
	struct credential_message m;
	struct slice name;

	if (n != sizeof(m))
		return -EPROTO;
	memcpy(&m, msg, sizeof(m));
	if (m.magic != CREDENTIAL_MAGIC || !m.kind || m.kind >= CREDENTIAL_MSG_NUM || m.zero ||
	    !(from_cayd ? credential_messages[m.kind].from_cayd
			: credential_messages[m.kind].from_broker) ||
	    m.number != (m.kind == CREDENTIAL_MSG_HELLO ? CREDENTIAL_ABI : 0))
		return -EPROTO;
	name = credential_member_text(m.name, sizeof(m.name));
	if (credential_messages[m.kind].named &&
	    (!broker_credential_name_is_valid(name) || !id_is_valid(&m.tenant, ID_TENANT)))
		return -EPROTO;
	return credential_messages[m.kind].whole && !credential_is_whole(&m) ? -EPROTO : 0;
}

int credential_purpose_write(const struct credential_message *m, struct buf *ret)
{
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(&m->tenant, id);
	r = buf_printf(ret, "cay credential\n%s\n%s\n%u\n%s\n%s\n", id, m->name, (unsigned)m->form,
		       m->header, m->pattern);
	for (size_t i = 0; r >= 0 && i < m->n_hosts; i++)
		r = buf_printf(ret, "%s\n", m->hosts[i]);
	return r;
}
