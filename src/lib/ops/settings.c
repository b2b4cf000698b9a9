/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/settings.h"

#include "base/log.h"

static const char *const log_formats[] = {
	[LOG_FORMAT_AUTO] = "auto",
	[LOG_FORMAT_TEXT] = "text",
	[LOG_FORMAT_JSON] = "json",
	[LOG_FORMAT_NUM] = NULL,
};

static const char *const images_pulls[] = {
	[IMAGES_PULL_NO] = "no",
	[IMAGES_PULL_CREATE] = "create",
	[IMAGES_PULL_NUM] = NULL,
};

static const struct conf_key keys[] = {
#define CAY_SETTING(section, key, type, member, min, max, value, choices, live, help) \
	{ section, key,  CONF_##type, offsetof(struct settings, member), min, max, value, \
	  choices, live, help },
#include "ops/settings.def"
#undef CAY_SETTING
};
/* A row that does not fit its member is a compile error. */
#define SIZE_U64(max) sizeof(uint64_t)
#define SIZE_DURATION(max) sizeof(uint64_t)
#define SIZE_BYTES(max) sizeof(uint64_t)
#define KIND_BYTES(m) _Generic(&(m), uint64_t *: true)
#define KIND_U64(m) _Generic(&(m), uint64_t *: true)
#define KIND_DURATION(m) _Generic(&(m), uint64_t *: true)
#define SIZE_BOOL(max) sizeof(bool)
#define KIND_BOOL(m) _Generic(&(m), bool *: true)
#define SIZE_CHOICE(max) sizeof(unsigned)
#define SIZE_PATH(max) ((max) + 1)
#define SIZE_WORD(max) ((max) + 1)
#define SIZE_TEXT(max) ((max) + 1)
#define KIND_TEXT(m) _Generic((m), char *: true)
#define KIND_WORD(m) _Generic((m), char *: true)
#define KIND_CHOICE(m) _Generic(&(m), unsigned *: true)
#define KIND_PATH(m) _Generic((m), char *: true)
#define CAY_SETTING(section, key, type, member, min, max, ...) \
	static_assert(sizeof(((struct settings *)0)->member) == SIZE_##type(max) && \
			      KIND_##type(((struct settings *)0)->member), \
		      section "." key " does not fit its member");
#include "ops/settings.def"
#undef CAY_SETTING

const struct conf_table settings_table = { keys, ARRAY_SIZE(keys) };

int settings_check(const struct settings *s, struct cay_err *err)
{
	/* an issuer signs JWTs for other services with the same keys */
	if (s->jwt_keys[0] && (!s->jwt_issuer[0] || !s->jwt_audience[0]))
		return cay_fail(err, CAY_E_INVALID,
				"jwt.keys: set jwt.issuer and jwt.audience as well, or every JWT "
				"these keys sign for another service would be accepted");
	return 0;
}

void settings_apply_live(struct settings *now, const struct settings *again)
{
#define CAY_SETTING(section, key, type, member, min, max, value, choices, live, ...) \
	if (live) \
		memcpy(&now->member, &again->member, sizeof(now->member));
#include "ops/settings.def"
#undef CAY_SETTING
}
