/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_H
#define CAY_MCP_PROFILES_PROFILE_H
/*
 * profile - functions the rows of the tool table name, and their lists of choices
 *
 * profile-native.c has those of native tools, the other profile-*.c those of the others;
 * profile-parts.c is shared.
 */
#include "mcp/tool.h"

extern const char *const native_streams[], *const native_encodings[], *const native_languages[];
extern const char *const anthropic_commands[], *const deep_modes[];
extern const char *const computer_actions[], *const computer_directions[];
extern const char *const openai_actions[], *const openai_buttons[];
extern const char *const agent_languages[], *const agent_encodings[];

tool_next_call_fn native_sandbox_create_next_call, native_sandbox_list_next_call,
	exec_tool_next_call, native_shell_next_call, native_output_next_call, native_stop_next_call,
	native_read_next_call, native_write_next_call, native_edit_next_call,
	native_ports_next_call, native_delete_next_call, native_network_next_call,
	native_code_next_call, native_snapshot_next_call;
tool_write_result_fn native_sandbox_write_result, native_sandboxes_write_result,
	native_delete_write_result, native_exec_write_result, shell_tool_write_result,
	native_output_write_result, native_stop_write_result, native_processes_write_result,
	file_view_write_result, native_write_write_result, native_diff_write_result,
	native_glob_write_result, native_grep_write_result, native_ports_write_result,
	native_preview_write_result, native_network_write_result, native_code_write_result,
	native_snapshot_write_result;

tool_next_call_fn anthropic_bash_next_call, anthropic_edit_next_call, computer_next_call;
tool_write_result_fn anthropic_bash_write_result, anthropic_edit_write_result,
	computer_write_result, computer_member_write_result;

tool_next_call_fn openai_next_call;
tool_write_result_fn openai_write_result;

tool_next_call_fn deep_bash_next_call, deep_grep_next_call, deep_read_next_call,
	deep_edit_next_call;
tool_write_result_fn deep_bash_write_result, deep_glob_write_result, deep_grep_write_result,
	deep_write_write_result;

extern const char *const page_filters[], *const page_targets[], *const page_directions[];
tool_next_call_fn page_act_next_call, page_read_next_call, page_html_next_call, page_text_next_call,
	page_scroll_by_next_call, page_shot_next_call, page_fetch_next_call, page_zoom_next_call,
	page_switch_next_call, page_find_next_call;
tool_write_result_fn page_act_write_result, page_read_write_result, page_url_write_result,
	page_title_write_result, page_info_write_result, page_scroll_by_write_result,
	page_value_write_result, page_tabs_write_result, page_closed_write_result,
	page_fetch_write_result, page_switch_write_result, page_find_write_result;

tool_next_call_fn hub_shell_next_call, hub_read_next_call, hub_edit_next_call, hub_upload_next_call,
	hub_kill_next_call, hub_info_next_call;
tool_write_result_fn hub_shell_write_result, hub_upload_write_result, hub_download_write_result,
	hub_kill_write_result, hub_processes_write_result, hub_info_write_result;

tool_next_call_fn hub_screen_next_call, hub_zoom_next_call, hub_screen_info_next_call;
tool_write_result_fn hub_screen_write_result, hub_zoom_write_result, hub_cursor_write_result,
	hub_screen_info_write_result, hub_windows_write_result, hub_active_window_write_result,
	hub_clipboard_write_result;

tool_next_call_fn agent_create_next_call, agent_import_next_call, agent_export_next_call,
	agent_code_next_call;
tool_write_result_fn agent_create_write_result, agent_terminal_write_result,
	agent_stop_write_result, agent_files_write_result, agent_code_write_result;

tool_next_call_fn osb_create_next_call, osb_list_next_call, osb_health_next_call,
	osb_read_next_call, osb_write_next_call, osb_batch_next_call, osb_search_next_call,
	osb_replace_next_call;
tool_write_result_fn osb_create_write_result, osb_info_write_result, osb_list_write_result,
	osb_renew_write_result, osb_health_write_result, osb_endpoint_write_result,
	osb_status_write_result, osb_execution_write_result, osb_read_write_result,
	osb_search_write_result, osb_replace_write_result;
#endif
