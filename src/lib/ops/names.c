/* SPDX-License-Identifier: Apache-2.0 */
/* names - texts of the tables for people; separate, so that PID 1 does not carry them */
#include "ops/op.h"

const struct op_tag op_tags[] = {
	{ "sandbox", "Sandboxes", "Computers for agents" },
	{ "group", "Groups", "Sandboxes that belong together" },
	{ "upload", "Uploads", "Files of a group, kept outside its sandboxes" },
	{ "exec", "Commands", "Commands in a sandbox, and their output" },
	{ "shell", "Shells", "Persistent bash sessions in a sandbox" },
	{ "kernel", "Kernels",
	  "Interpreters in a sandbox that keep their variables: Python, Node, R" },
	{ "screen", "Screens", "The desktop in a sandbox: pictures, mouse and keyboard" },
	{ "browser", "Browsers", "The browser in a sandbox: pages as text, clicks and typing" },
	{ "file", "Files", "Files of a sandbox" },
	{ "tree", "Trees", "Directories as archives, in and out" },
	{ "export", "Exports", "Paths of a sandbox that anyone with their URL can download" },
	{ "process", "Processes", "Processes of a sandbox" },
	{ "port", "Ports", "Listening ports of a sandbox" },
	{ "egress", "Egress", "Where the connections of a sandbox may go" },
	{ "ask", "Asks", "Connections that wait for an answer" },
	{ "preset", "Presets", "Rules with a name, for egress policies" },
	{ "credential", "Credentials", "Secrets that are set in requests outside of sandboxes" },
	{ "service", "Services", "Long-running programs in a sandbox, restarted when they end" },
	{ "snapshot", "Snapshots", "The files of sandboxes, kept to create others from" },
	{ "volume", "Volumes", "Directories that outlive sandboxes" },
	{ "template", "Templates and pools",
	  "Templates of sandboxes, and pools of pre-started ones" },
	{ "image", "Images", "Images to create sandboxes from" },
	{ "registry", "Registries", "Registries to pull images from" },
	{ "event", "Events", "State changes of sandboxes" },
	{ "tenant", "Tenants", "Owners of sandboxes" },
	{ "key", "Keys", "API keys" },
	{ "audit", "Audit", "Log of requests and their outcomes" },
	{ "system", "The service itself", "Health, metrics, repair and these documents" },
};
const size_t op_n_tags = ARRAY_SIZE(op_tags);

static const char *const causes[CAY_NUM_CODES] = {
	[CAY_OK] = "no error",
#define CAY_CAUSE(sym, text) [CAY_E_##sym] = text,
#include "ops/causes.def"
#undef CAY_CAUSE
};

const char *error_code_cause(enum cay_code code)
{
	return causes[code];
}
