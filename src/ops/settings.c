/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/settings.h"

#include "base/log.h"

static const char *const log_levels[] = {
	[LOG_L_ERROR] = "error", [LOG_L_WARNING] = "warning", [LOG_L_INFO] = "info",
	[LOG_L_DEBUG] = "debug", [LOG_NUM_LEVELS] = NULL,
};
static const char *const log_formats[] = {
	[LOG_FORMAT_AUTO] = "auto",
	[LOG_FORMAT_TEXT] = "text",
	[LOG_FORMAT_JSON] = "json",
	[LOG_FORMAT_NUM] = NULL,
};

static const struct conf_key keys[] = {
#define CAY_SETTING(section, key, type, member, min, max, value, choices, live, help) \
	{ section, key,  CONF_##type, offsetof(struct settings, member), min, max, value, \
	  choices, live, help },
#include "ops/settings.def"
#undef CAY_SETTING
};
const struct conf_table settings_table = { keys, ARRAY_SIZE(keys) };
