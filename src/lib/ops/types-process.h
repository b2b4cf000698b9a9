/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_PROCESS_H
#define CAY_OPS_TYPES_PROCESS_H
/* types-process - processes, listening ports and kernels of a sandbox; a part of types.h */
#include "ops/field.h"

struct process {
	uint64_t pid, ppid, depth;
	const char *user;
	uint64_t uid;
	const char *state, *command;
	uint64_t threads, cpu_ms, cpu_milli, rss_bytes, started_ns, start;
	struct id exec;
};

struct process_list {
	struct field_list processes;
	uint64_t left_out;
};

struct process_signal {
	const char *signal;
	uint64_t start;
	bool has_start, tree;
};

struct process_signalled {
	uint64_t signalled;
};

struct port {
	uint64_t port;
	const char *address;
	bool reached;
	uint64_t uid, pid;
	bool has_pid;
	struct id exec;
};

struct port_list {
	struct field_list ports;
};

struct port_wait_query {
	uint64_t wait_ms;
};

struct port_open {
	uint64_t port;
	bool open;
	uint64_t waited_ms;
};

struct kernel_create {
	const char *language, *name, *cwd, *user;
	struct field_map env;
};

/* The interpreter from which kernels are forked. */
enum loaded_state { LOADED_LOADING, LOADED_READY, LOADED_STALE, LOADED_ENDED, LOADED_FAILED };
struct loaded_kernel {
	unsigned state;
	struct field_map missing;
	const char *why;
};

struct kernel_list {
	struct field_list kernels;
	struct loaded_kernel loaded;
	bool has_loaded;
};

struct kernel_run {
	const char *code, *cwd;
	uint64_t timeout_ms, max_output_bytes, max_results_bytes;
	struct field_map env;
	unsigned keep;
	bool silent, detach;
};

struct kernel_eval {
	const char *language, *name;
	bool restart;
	struct kernel_run run;
};

struct kernel_install {
	struct field_map packages;
	uint64_t timeout_ms, max_output_bytes;
	unsigned keep;
	bool detach;
};

struct kernel_cut {
	const char *mime, *path;
	uint64_t bytes;
};

struct kernel_result {
	bool main, update;
	struct field_map data, metadata;
	const char *display_id;
	struct field_list cut;
};

struct kernel_exception {
	const char *name, *value;
	struct field_texts traceback;
	bool has_traceback, late;
};

/* The X screen in a sandbox. */
enum screen_action_type {
	SCREEN_MOVE,
	SCREEN_CLICK,
	SCREEN_DOWN,
	SCREEN_UP,
	SCREEN_DRAG,
	SCREEN_SCROLL,
	SCREEN_KEY,
	SCREEN_HOLD,
	SCREEN_TYPE,
	SCREEN_WAIT,
	SCREEN_FOCUS,
	SCREEN_CLOSE,
	SCREEN_COPY,
	SCREEN_NUM_ACTIONS
};

enum screen_button {
	BUTTON_LEFT,
	BUTTON_MIDDLE,
	BUTTON_RIGHT,
	BUTTON_BACK,
	BUTTON_FORWARD,
	BUTTON_NUM
};

enum screen_direction { SCROLL_UP, SCROLL_DOWN, SCROLL_LEFT, SCROLL_RIGHT, SCROLL_NUM };
enum screen_after { AFTER_NONE, AFTER_SHOT, AFTER_NUM };

struct screen_shot_query {
	uint64_t x, y, width, height, max_width, max_height;
	bool cursor;
};

struct screen_window {
	uint64_t id;
	const char *title, *class_name;
	bool active;
};

struct screen_info {
	uint64_t width, height, cursor_x, cursor_y;
	struct field_list windows; /* struct screen_window */
};

struct screen_action {
	unsigned type, button, direction;
	uint64_t x, y, to_x, to_y, clicks, amount, repeat, duration_ms, window;
	bool has_x, has_y, has_to_x, has_to_y, has_button, has_direction, has_clicks, has_amount,
		has_repeat, has_duration, has_window;
	const char *keys, *text;
};

struct screen_act {
	struct field_list actions; /* struct screen_action */
	uint64_t max_width, max_height, settle_ms;
	unsigned screenshot;
	bool cursor;
};

struct screen_done {
	uint64_t width, height, cursor_x, cursor_y;
	const char *png;
};

struct screen_clipboard {
	const char *text;
};

/* The browser in a sandbox. */
#define BROWSER_TITLE_MAX UINT64_C(256)
#define BROWSER_URL_MAX UINT64_C(2048)
#define BROWSER_VALUE_MAX MIB(1)           /* of the scripts of a request together, as JSON */
#define BROWSER_CHARS_MAX UINT64_C(200000) /* of a snapshot */

enum browser_action_type {
	BROWSER_NAVIGATE,
	BROWSER_BACK,
	BROWSER_FORWARD,
	BROWSER_RELOAD,
	BROWSER_CLICK,
	BROWSER_HOVER,
	BROWSER_DRAG,
	BROWSER_SCROLL,
	BROWSER_FILL,
	BROWSER_TYPE,
	BROWSER_PRESS,
	BROWSER_UPLOAD,
	BROWSER_EVALUATE,
	BROWSER_WAIT,
	BROWSER_TAB_NEW,
	BROWSER_TAB_CLOSE,
	BROWSER_NUM_ACTIONS
};

enum browser_filter {
	BROWSER_NONE, /* no snapshot; only of browser.act */
	BROWSER_VISIBLE,
	BROWSER_ALL,
	BROWSER_INTERACTIVE,
	BROWSER_TEXT,
	BROWSER_MARKDOWN,
	BROWSER_NUM_FILTERS
};

struct browser_tab {
	const char *id, *title, *url;
	bool active;
};

struct browser_info {
	bool running;
	const char *version;
	uint64_t port;
	bool has_port;
	struct field_list tabs; /* struct browser_tab */
};

struct browser_action {
	unsigned type, button, direction;
	const char *url, *ref, *selector, *to_ref, *keys, *text, *script;
	uint64_t x, y, to_x, to_y, clicks, amount, repeat, duration_ms;
	bool has_x, has_y, has_to_x, has_to_y, has_button, has_direction, has_clicks, has_amount,
		has_repeat, has_duration, has_text, has_paths;
	struct field_texts paths;
};

struct browser_act {
	struct field_list actions; /* struct browser_action */
	const char *tab;
	unsigned snapshot; /* enum browser_filter */
	unsigned screenshot;
	uint64_t max_chars, timeout_ms;
};

struct browser_result {
	const char *value;
	uint64_t status;
	bool has_status;
};

struct browser_snapshot {
	const char *tab, *url, *title, *text;
	uint64_t left, width, height, scroll_y, page_height;
};

struct browser_done {
	uint64_t done;
	const char *error, *field;
	struct field_list results; /* struct browser_result */
	struct field_texts changes;
	bool has_changes;
	struct field_list tabs; /* struct browser_tab */
	struct browser_snapshot page;
	const char *png;
};

struct browser_snapshot_query {
	const char *tab, *ref;
	unsigned filter; /* enum browser_filter */
	uint64_t max_chars;
};

enum browser_format { BROWSER_PNG, BROWSER_PDF, BROWSER_NUM_FORMATS };

struct browser_shot_query {
	const char *tab;
	uint64_t x, y, width, height;
	bool full;
	unsigned format; /* enum browser_format */
};
#endif
