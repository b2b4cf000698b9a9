/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/trusted-proxies.h"

#include <arpa/inet.h>

#define V4_PREFIX_LEN 12 /* ::ffff: */
#define ADDRESS_TEXT_MAX 45
#define TEXT_MAX (ADDRESS_TEXT_MAX + sizeof("[]:65535"))

static void net_address_from_v4(const void *v4, uint8_t ret[static NET_ADDRESS_LEN])
{
	memset(ret, 0, 10);
	memset(ret + 10, 0xff, 2);
	memcpy(ret + V4_PREFIX_LEN, v4, 4);
}

bool net_address_is_v4(const uint8_t address[static NET_ADDRESS_LEN])
{
	static const uint8_t prefix[V4_PREFIX_LEN] = { [10] = 0xff, [11] = 0xff };

	return memcmp(address, prefix, sizeof(prefix)) == 0;
}

bool net_address_from_socket(const struct sockaddr_storage *at, uint8_t ret[static NET_ADDRESS_LEN])
{
	if (at->ss_family == AF_INET)
		net_address_from_v4(&((const struct sockaddr_in *)(const void *)at)->sin_addr, ret);
	else if (at->ss_family == AF_INET6)
		memcpy(ret, &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr,
		       NET_ADDRESS_LEN);
	return at->ss_family == AF_INET || at->ss_family == AF_INET6;
}

static int net_address_parse_plain(struct slice text, uint8_t ret[static NET_ADDRESS_LEN])
{
	char copy[ADDRESS_TEXT_MAX + 1];
	struct in_addr v4;

	if (!text.n || text.n >= sizeof(copy) || memchr(text.p, 0, text.n))
		return -EINVAL;
	memcpy(copy, text.p, text.n);
	copy[text.n] = 0;
	if (inet_pton(AF_INET, copy, &v4) == 1)
		net_address_from_v4(&v4, ret);
	else if (inet_pton(AF_INET6, copy, ret) != 1)
		return -EINVAL;
	return 0;
}

int net_address_parse(struct slice text, uint8_t ret[static NET_ADDRESS_LEN])
{
	const char *end;

	if (!text.n || text.n > TEXT_MAX)
		return -EINVAL;
	if (text.p[0] == '[') {
		end = memchr(text.p, ']', text.n);
		return end ? net_address_parse_plain(
				     (struct slice){ text.p + 1, (size_t)(end - text.p) - 1 }, ret)
			   : -EINVAL;
	}
	end = memchr(text.p, ':', text.n);
	/* one colon is before a port, several are IPv6 */
	if (end && !memchr(end + 1, ':', text.n - (size_t)(end + 1 - text.p)))
		text.n = (size_t)(end - text.p);
	return net_address_parse_plain(text, ret);
}

static int trusted_network_parse(struct slice word, struct trusted_network *ret)
{
	struct slice bits = word, address = slice_cut(&bits, '/');
	bool v4 = !memchr(address.p, ':', address.n);
	uint64_t n = v4 ? 32 : 128;

	/* a network of all addresses would let every client choose its own */
	if (net_address_parse_plain(address, ret->address) < 0 ||
	    (bits.p && str_parse_u64(bits, 1, n, &n) < 0))
		return -EINVAL;
	ret->bits = (unsigned)n + (v4 ? 8 * V4_PREFIX_LEN : 0);
	return 0;
}

int trusted_proxies_parse(struct slice text, struct trusted_proxies *ret, struct cay_err *err)
{
	*ret = (struct trusted_proxies){};
	while (text.n) {
		struct slice word = slice_cut(&text, ' ');

		if (!word.n)
			continue;
		if (ret->n == TRUSTED_PROXIES_MAX)
			return cay_fail(err, CAY_E_INVALID, "edge.trusted: at most %d addresses",
					TRUSTED_PROXIES_MAX);
		if (trusted_network_parse(word, &ret->networks[ret->n]) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"edge.trusted: '%.*s' is neither ADDRESS nor ADDRESS/BITS",
					(int)word.n, word.p);
		ret->n++;
	}
	return 0;
}

static bool trusted_network_contains(const struct trusted_network *t,
				     const uint8_t address[static NET_ADDRESS_LEN])
{
	unsigned whole = t->bits / 8, rest = t->bits % 8;

	return memcmp(t->address, address, whole) == 0 &&
	       (!rest || (t->address[whole] ^ address[whole]) >> (8 - rest) == 0);
}

bool trusted_proxies_contain(const struct trusted_proxies *t,
			     const uint8_t address[static NET_ADDRESS_LEN])
{
	for (unsigned i = 0; i < t->n; i++)
		if (trusted_network_contains(&t->networks[i], address))
			return true;
	return false;
}

/* The last entry of a list, which is cut off. */
static struct slice forwarded_cut_last(struct slice *list)
{
	const char *comma = memrchr(list->p, ',', list->n);
	struct slice last =
		comma ? (struct slice){ comma + 1, list->n - (size_t)(comma + 1 - list->p) }
		      : *list;

	list->n = comma ? (size_t)(comma - list->p) : 0;
	return slice_trim(last);
}

void trusted_proxies_find_client(const struct trusted_proxies *t, const struct http_head *head,
				 uint8_t address[static NET_ADDRESS_LEN])
{
	for (size_t i = head->n_headers; i-- > 0;) {
		struct slice list = head->headers[i].value;

		if (!http_equals_nocase(head->headers[i].name, "x-forwarded-for"))
			continue;
		while (list.n) {
			uint8_t from[NET_ADDRESS_LEN];

			if (!trusted_proxies_contain(t, address) ||
			    net_address_parse(forwarded_cut_last(&list), from) < 0)
				return;
			memcpy(address, from, sizeof(from));
		}
	}
}
