/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd/package-preset.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/print/print.h"
#include "egress/package-hosts.h"
#include "egress/policy.h"

#define HOSTS_MAX 256 /* rules of a preset */
#define FILES_MAX 256 /* of a directory */

enum package_client { APT, PIP, UV, NPM, CARGO, GO, MAVEN, CLIENT_NUM };

static const struct {
	const char *name, *configure;
} clients[CLIENT_NUM] = {
	[APT] = { "apt", "write a file in /etc/apt/sources.list.d" },
	[PIP] = { "pip", "run 'pip config set global.index-url URL'" },
	[UV] = { "uv", "write an [[index]] into /etc/uv/uv.toml" },
	[NPM] = { "npm", "run 'npm config set registry URL'" },
	[CARGO] = { "cargo", "write a [source] or [registries] into ~/.cargo/config.toml" },
	[GO] = { "go", "run 'go env -w GOPROXY=URL'" },
	[MAVEN] = { "maven", "write a <mirror> into ~/.m2/settings.xml" },
};

/* A file, the files of a directory, or a variable.  The path follows the value of `below`, or if it
 * is not set HOME and `or_home`; without either it is absolute. */
static const struct package_place {
	enum package_client client;
	enum package_syntax syntax;
	const char *below, *or_home, *path;
	const char *ends; /* of files in the directory; NULL: it is a file */
	bool value;       /* the variable has URLs */
} places[] = {
#define AT(client, syntax, path_) { client, PACKAGE_##syntax, .path = (path_) }
#define DIR(client, syntax, path_, ends_) \
	{ client, PACKAGE_##syntax, .path = (path_), .ends = (ends_) }
#define BELOW(client, syntax, variable, path_) \
	{ client, PACKAGE_##syntax, .below = (variable), .path = (path_) }
#define HOME(client, syntax, variable, home, path_) \
	{ client, PACKAGE_##syntax, .below = (variable), .or_home = (home), .path = (path_) }
#define URLS(client, syntax, variable) \
	{ client, PACKAGE_##syntax, .below = (variable), .path = "", .value = true }
	AT(APT, APT_LIST, "/etc/apt/sources.list"),
	DIR(APT, APT_LIST, "/etc/apt/sources.list.d", ".list"),
	DIR(APT, APT_SOURCES, "/etc/apt/sources.list.d", ".sources"),
	AT(PIP, PIP, "/etc/pip.conf"),
	AT(PIP, PIP, "/etc/xdg/pip/pip.conf"),
	HOME(PIP, PIP, NULL, "", "/.pip/pip.conf"),
	HOME(PIP, PIP, "XDG_CONFIG_HOME", "/.config", "/pip/pip.conf"),
	BELOW(PIP, PIP, "VIRTUAL_ENV", "/pip.conf"),
	BELOW(PIP, PIP, "PIP_CONFIG_FILE", ""),
	URLS(PIP, WORDS, "PIP_INDEX_URL"),
	URLS(PIP, WORDS, "PIP_EXTRA_INDEX_URL"),
	URLS(PIP, WORDS, "PIP_FIND_LINKS"),
	AT(UV, TOML, "/etc/uv/uv.toml"),
	AT(UV, TOML, "/etc/xdg/uv/uv.toml"),
	HOME(UV, TOML, "XDG_CONFIG_HOME", "/.config", "/uv/uv.toml"),
	BELOW(UV, TOML, "UV_CONFIG_FILE", ""),
	URLS(UV, WORDS, "UV_DEFAULT_INDEX"),
	URLS(UV, WORDS, "UV_INDEX"),
	URLS(UV, WORDS, "UV_INDEX_URL"),
	URLS(UV, WORDS, "UV_EXTRA_INDEX_URL"),
	URLS(UV, WORDS, "UV_FIND_LINKS"),
	AT(NPM, NPM, "/etc/npmrc"),
	AT(NPM, NPM, "/usr/etc/npmrc"),
	AT(NPM, NPM, "/usr/local/etc/npmrc"),
	BELOW(NPM, NPM, "NPM_CONFIG_GLOBALCONFIG", ""),
	HOME(NPM, NPM, NULL, "", "/.npmrc"),
	BELOW(NPM, NPM, "NPM_CONFIG_USERCONFIG", ""),
	URLS(NPM, WORDS, "NPM_CONFIG_REGISTRY"),
	URLS(NPM, WORDS, "npm_config_registry"),
	HOME(CARGO, TOML, "CARGO_HOME", "/.cargo", "/config.toml"),
	HOME(CARGO, TOML, "CARGO_HOME", "/.cargo", "/config"),
	AT(GO, GO, "/usr/lib/go/go.env"),
	AT(GO, GO, "/usr/local/go/go.env"),
	BELOW(GO, GO, "GOROOT", "/go.env"),
	HOME(GO, GO, "XDG_CONFIG_HOME", "/.config", "/go/env"),
	BELOW(GO, GO, "GOENV", ""),
	URLS(GO, PROXIES, "GOPROXY"),
	AT(MAVEN, MAVEN, "/etc/maven/settings.xml"),
	AT(MAVEN, MAVEN, "/usr/share/maven/conf/settings.xml"),
	BELOW(MAVEN, MAVEN, "MAVEN_HOME", "/conf/settings.xml"),
	HOME(MAVEN, MAVEN, NULL, "", "/.m2/settings.xml"),
#undef URLS
#undef HOME
#undef BELOW
#undef DIR
#undef AT
};

struct package_finder {
	struct buf *out;
	int root;   /* descriptor */
	bool other; /* another system than this process is part of */
	struct package_host hosts[HOSTS_MAX];
	size_t n_hosts;
	const struct package_place *place; /* that is read now */
	const char *from;                  /* its path, or the name of the variable */
	bool named;                        /* it has been written */
	bool configured;                   /* the client names a host */
	bool read_only;                    /* write rules for GET and HEAD */
};

static const char *finder_get_variable(const struct package_finder *f, const char *name)
{
	const char *value = f->other ? NULL : getenv(name);

	if (f->other && str_eq(name, "HOME"))
		return "/root";
	return value && *value ? value : NULL;
}

/* line 0: the whole file or variable. */
static int finder_comment(struct package_finder *f, unsigned line, const char *text)
{
	int r = buf_printf(f->out, "# %s: ", clients[f->place->client].name);

	if (r >= 0)
		r = print_append_escaped(f->out, slice_of(f->from));
	if (r >= 0 && line)
		r = buf_printf(f->out, ", line %u", line);
	return r < 0 ? r : buf_printf(f->out, "%s%s\n", *text ? ": " : "", text);
}

static bool finder_has_host(const struct package_finder *f, const struct package_host *h)
{
	for (size_t i = 0; i < f->n_hosts; i++)
		if (f->hosts[i].port == h->port && str_eq(f->hosts[i].host, h->host))
			return true;
	return false;
}

/* Requests are read for names, on two ports. */
static int finder_write_rule(const struct package_finder *f, const struct package_host *h)
{
	struct egress_target to;
	const bool can_be_read = (h->port == 80 || h->port == 443) &&
				 egress_target_parse(slice_of(h->host), &to, NULL) >= 0 &&
				 to.kind == EGRESS_TO_NAME;

	if (!f->read_only)
		return buf_printf(f->out, "allow %s %u\n", h->host, h->port);
	return can_be_read ? buf_printf(f->out, "allow %s %u methods=GET,HEAD\n", h->host, h->port)
			   : buf_printf(f->out, "# not %s %u: its requests cannot be read\n",
					h->host, h->port);
}

static int on_package_host(void *arg, const struct package_host *h)
{
	struct package_finder *f = arg;
	int r = 0;

	f->configured = true;
	if (!h->port)
		return finder_comment(f, h->line, "no rule can name the host of this URL");
	if (finder_has_host(f, h))
		return 0;
	if (f->n_hosts == HOSTS_MAX)
		return -E2BIG;
	f->hosts[f->n_hosts++] = *h;
	if (!f->named)
		r = finder_comment(f, 0, "");
	f->named = true;
	if (r >= 0)
		r = finder_write_rule(f, h);
	return r;
}

static int finder_read_text(struct package_finder *f, const char *from, struct slice text)
{
	f->from = from;
	f->named = false;
	return package_hosts_read(f->place->syntax, text, on_package_host, f);
}

/* One that cannot be read is a comment. */
static int finder_read_file(struct package_finder *f, const char *path)
{
	auto_buf text = BUF_INIT(PACKAGE_FILE_MAX);
	int r = path_read_in_root(f->root, path, &text);

	f->from = path;
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r >= 0)
		r = finder_read_text(f, path, (struct slice){ buf_str(&text), text.len });
	else
		r = finder_comment(f, 0, r == -EFBIG ? "is too large" : strerror(-r));
	if (text.len) /* it may have passwords */
		explicit_bzero(text.data, text.len);
	return r;
}

struct package_files {
	const char *ends;
	char *names[FILES_MAX];
	size_t n;
};

static int on_package_file(void *arg, int, const char *name)
{
	struct package_files *all = arg;
	size_t n = strlen(name), ends = strlen(all->ends);

	if (n <= ends || !str_eq(name + n - ends, all->ends))
		return 0;
	if (all->n == FILES_MAX)
		return -E2BIG;
	all->names[all->n] = strdup(name);
	return all->names[all->n++] ? 0 : -ENOMEM;
}

static int package_file_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int finder_read_dir(struct package_finder *f, const char *path)
{
	auto_close int dir = path_open_in_root(f->root, path, O_RDONLY | O_DIRECTORY, 0);
	struct package_files all = { .ends = f->place->ends };
	int r = dir < 0 ? 0 : path_for_each_entry(dir, on_package_file, &all);

	qsort(all.names, all.n, sizeof(all.names[0]), package_file_compare);
	for (size_t i = 0; i < all.n; i++) {
		auto_buf file = BUF_INIT(KIB(8));

		if (r >= 0 && all.names[i])
			r = buf_printf(&file, "%s/%s", path, all.names[i]);
		if (r >= 0)
			r = finder_read_file(f, buf_str(&file));
		free(all.names[i]);
	}
	return r;
}

static int finder_read_place(struct package_finder *f)
{
	const struct package_place *p = f->place;
	const char *below = p->below ? finder_get_variable(f, p->below) : NULL;
	const char *home = !below && p->or_home ? finder_get_variable(f, "HOME") : NULL;
	auto_buf path = BUF_INIT(KIB(8));

	if (p->value)
		return below ? finder_read_text(f, p->below, slice_of(below)) : 0;
	if (!below && !home && (p->below || p->or_home))
		return 0;
	if (buf_printf(&path, "%s%s%s",
		       below  ? below
		       : home ? home
			      : "",
		       home ? p->or_home : "", p->path) < 0 ||
	    buf_str(&path)[0] != '/') /* as GOENV=off */
		return 0;
	return p->ends ? finder_read_dir(f, buf_str(&path)) : finder_read_file(f, buf_str(&path));
}

static int finder_read_client(struct package_finder *f, unsigned client)
{
	int r = 0;

	f->configured = false;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(places); i++) {
		f->place = &places[i];
		if (f->place->client == client)
			r = finder_read_place(f);
	}
	if (r >= 0 && !f->configured)
		r = buf_printf(f->out, "# %s: not configured; %s, or add its hosts here\n",
			       clients[client].name, clients[client].configure);
	return r;
}

int package_preset_write(const char *root, bool read_only, struct buf *ret, struct cay_err *err)
{
	auto_close int fd = open(root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct package_finder f = {
		.out = ret, .root = fd, .other = root != NULL, .read_only = read_only
	};
	int r = 0;

	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open %s", root ? root : "/");
	r = buf_puts(ret, read_only ? "# Hosts that package clients are configured with, to read "
				      "from\n"
				    : "# Hosts that package clients are configured with\n");
	if (r >= 0)
		r = buf_puts(
			ret,
			"#\n"
			"# Written by 'cay egress presets --discover'. A registry may serve its "
			"files from another host: add it.\n");
	for (unsigned i = 0; r >= 0 && i < CLIENT_NUM; i++)
		r = finder_read_client(&f, i);
	if (r == -E2BIG)
		return cay_fail(err, CAY_E_LIMIT,
				"there are more than %d hosts, or files of sources in a directory",
				HOSTS_MAX);
	return r < 0 ? cay_fail_sys(err, r == -ENOMEM ? CAY_E_NO_MEMORY : CAY_E_INTERNAL, -r,
				    "cannot write the preset")
		     : 0;
}
