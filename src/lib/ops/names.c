/* SPDX-License-Identifier: Apache-2.0 */
/* names - texts of the tables for people; separate, so that PID 1 does not carry them */
#include "ops/op.h"

const struct op_tag op_tags[] = {
	{ "sandbox", "Sandboxes", "Computers for agents" },
	{ "group", "Groups", "Sandboxes that belong together" },
	{ "upload", "Uploads", "Files of a group, kept outside its sandboxes" },
	{ "exec", "Commands", "Commands in a sandbox, and what they write" },
	{ "shell", "Shells", "A bash in a sandbox that stays" },
	{ "file", "Files", "Files of a sandbox" },
	{ "tree", "Trees", "Directories as archives, in and out" },
	{ "process", "Processes", "What runs in a sandbox" },
	{ "port", "Ports", "What listens in a sandbox" },
	{ "service", "Services", "Programs in a sandbox that are kept running" },
	{ "template", "Templates and pools", "Kinds of sandboxes, some made ahead" },
	{ "image", "Images", "What sandboxes are made from" },
	{ "registry", "Registries", "Where images are pulled from" },
	{ "event", "Events", "What happened to sandboxes" },
	{ "tenant", "Tenants", "Who shares a node" },
	{ "key", "Keys", "What a program proves itself with" },
	{ "audit", "Audit", "Who asked for what" },
	{ "system", "The service itself", "Health, metrics, repair and these documents" },
};
const size_t op_n_tags = ARRAY_SIZE(op_tags);

static const char *const causes[CAY_NUM_CODES] = {
	[CAY_OK] = "nothing went wrong",
#define CAY_CAUSE(sym, text) [CAY_E_##sym] = text,
#include "ops/causes.def"
#undef CAY_CAUSE
};

const char *error_code_cause(enum cay_code code)
{
	return causes[code];
}
