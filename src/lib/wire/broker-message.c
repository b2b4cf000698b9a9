/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/broker-message.h"

#include <errno.h>
#include <string.h>

bool broker_credential_name_is_valid(struct slice name)
{
	if (!name.n || name.n >= BROKER_CREDENTIAL_SIZE || !ascii_is_alnum(name.p[0]))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alnum(name.p[i]) && name.p[i] != '.' && name.p[i] != '_' &&
		    name.p[i] != '-')
			return false;
	return true;
}

/* Characters of host names in lower case. */
static bool broker_host_is_valid(struct slice host)
{
	if (!host.n || host.n >= BROKER_HOST_SIZE)
		return false;
	for (size_t i = 0; i < host.n; i++)
		if (!ascii_is_lower(host.p[i]) && !ascii_is_digit(host.p[i]) && host.p[i] != '-' &&
		    host.p[i] != '_' && host.p[i] != '.')
			return false;
	return true;
}

int broker_record_init(struct broker_record *ret, const struct id *sandbox, const struct id *tenant,
		       struct slice host, uint16_t port, struct slice credential)
{
	if (!broker_host_is_valid(host) ||
	    (credential.n && !broker_credential_name_is_valid(credential)))
		return -EINVAL;
	*ret = (struct broker_record){ .magic = BROKER_MAGIC,
				       .abi = BROKER_ABI,
				       .port = port,
				       .sandbox = *sandbox,
				       .tenant = *tenant };
	memcpy(ret->host, host.p, host.n);
	if (credential.n)
		memcpy(ret->credential, credential.p, credential.n);
	return 0;
}

/* The text of a member that is filled with 0 behind it; p NULL otherwise. */
static struct slice broker_member_text(const char *member, size_t size)
{
	size_t n = strnlen(member, size);

	for (size_t i = n; i < size; i++)
		if (member[i])
			return (struct slice){};
	return n < size ? (struct slice){ member, n } : (struct slice){};
}

int broker_record_check(const void *msg, size_t n, unsigned n_fds)
{
	struct broker_record m;
	struct slice host, credential;

	if (n != sizeof(m) || n_fds != BROKER_NUM_FDS)
		return -EPROTO;
	memcpy(&m, msg, sizeof(m));
	host = broker_member_text(m.host, sizeof(m.host));
	credential = broker_member_text(m.credential, sizeof(m.credential));
	if (m.magic != BROKER_MAGIC || m.abi != BROKER_ABI || !m.port ||
	    !id_is_valid(&m.sandbox, ID_SANDBOX) || !id_is_valid(&m.tenant, ID_TENANT) ||
	    !broker_host_is_valid(host) || !credential.p ||
	    (credential.n && !broker_credential_name_is_valid(credential)))
		return -EPROTO;
	return 0;
}
