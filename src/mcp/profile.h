/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILE_H
#define CAY_MCP_PROFILE_H
/*
 * profile - the functions rows of the tool table name, and lists of choices they have
 *
 * profile-native.c has those of native tools, the other profile-*.c those of the others;
 * profile-parts.c what they have in common.
 */
#include "mcp/tool.h"

extern const char *const native_streams[], *const native_encodings[];
extern const char *const anthropic_commands[], *const deep_modes[];
extern const char *const agent_languages[], *const agent_encodings[];

tool_ask ask_sandbox_create, ask_sandbox_list, part_exec_ask, ask_shell, ask_output, ask_stop,
	ask_read, ask_write, ask_edit, ask_ports;
tool_show show_sandbox, show_sandboxes, show_deleted, show_exec, part_shell_show, show_output,
	show_stopped, show_processes, part_view_show, show_written, show_diff, show_found,
	show_hits, show_ports, show_preview;

tool_ask anthropic_ask_bash, anthropic_ask_edit;
tool_show anthropic_show_bash, anthropic_show_edit;

tool_ask deep_ask_bash, deep_ask_grep, deep_ask_read, deep_ask_edit;
tool_show deep_show_bash, deep_show_glob, deep_show_grep, deep_show_write;

tool_ask hub_ask_shell, hub_ask_read, hub_ask_edit, hub_ask_upload, hub_ask_download, hub_ask_kill;
tool_show hub_show_upload, hub_show_download, hub_show_kill;

tool_ask agent_ask_create, agent_ask_import, agent_ask_export;
tool_show agent_show_create, agent_show_terminal, agent_show_stop, agent_show_rows;

tool_ask osb_ask_create, osb_ask_list, osb_ask_health, osb_ask_read, osb_ask_write, osb_ask_delete,
	osb_ask_rmdirs, osb_ask_mkdirs, osb_ask_move, osb_ask_search, osb_ask_replace;
tool_show osb_show_created, osb_show_info, osb_show_list, osb_show_renewed, osb_show_health,
	osb_show_endpoint, osb_show_killed, osb_show_execution, osb_show_interrupted, osb_show_read,
	osb_show_written, osb_show_deleted, osb_show_mkdirs, osb_show_moved, osb_show_search,
	osb_show_replaced;
#endif
