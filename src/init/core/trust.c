/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "base/path.h"

#define BUNDLE_MAX MIB(4)
#define ALONE "/usr/local/share/ca-certificates/cay.crt"

/* Where systems have the certificates they trust; the first is made if there is none. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

/* Where the tools that make bundles look; those whose directory exists, and the first. */
static const char *const anchors[] = {
	ALONE,
	"/etc/pki/ca-trust/source/anchors/cay.crt",
	"/etc/ca-certificates/trust-source/anchors/cay.crt",
};

/* Where Chromium and Chrome look for policies; those whose directory exists. */
static const char *const browser_policies[] = {
	"/etc/chromium/policies/managed/cay-trust.json",
	"/etc/opt/chrome/policies/managed/cay-trust.json",
};

/* These replace the certificates a program has, so they name a bundle with all. */
static const char *const bundle_variables[] = {
	"SSL_CERT_FILE",      "REQUESTS_CA_BUNDLE",
	"PIP_CERT",           "CURL_CA_BUNDLE",
	"GIT_SSL_CAINFO",     "CARGO_HTTP_CAINFO",
	"AWS_CA_BUNDLE",      "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
	"BUNDLE_SSL_CA_CERT",
};
/* These add to them. */
static const char *const alone_variables[] = { "NODE_EXTRA_CA_CERTS", "DENO_CERT" };

static const char *env_keys[ARRAY_SIZE(bundle_variables) + ARRAY_SIZE(alone_variables) + 1];
static const char *env_values[ARRAY_SIZE(env_keys)];
static struct field_map env = { env_keys, env_values, 0 };

static void directories_create(const char *path)
{
	char at[128];
	const size_t n = strlen(path);

	if (n >= sizeof(at))
		return;
	memcpy(at, path, n + 1);
	for (size_t i = 1; i < n; i++) {
		if (at[i] != '/')
			continue;
		at[i] = 0;
		(void)mkdir(at, 0755);
		at[i] = '/';
	}
}

static bool file_write(const char *path, int flags, struct slice text)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0644);

	return fd >= 0 && fd_write_all(fd, text.p, text.n) >= 0;
}

/* False: there is no such file, or it cannot be written. */
static bool bundle_append(const char *path, struct slice pem)
{
	auto_buf has = BUF_INIT(BUNDLE_MAX), more = BUF_INIT(KIB(4));
	auto_close int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > BUNDLE_MAX)
		return false;
	has.max = (size_t)st.st_size + 1;
	{
		auto_close int fd = path_open_in_root(root, path + 1, O_RDONLY, 0);

		if (fd < 0 || buf_reserve(&has, (size_t)st.st_size) < 0)
			return false;
		while (has.len < (size_t)st.st_size) {
			ssize_t n = read(fd, has.data + has.len, (size_t)st.st_size - has.len);

			if (n <= 0)
				break;
			has.len += (size_t)n;
		}
	}
	if (has.len && memmem(has.data, has.len, pem.p, pem.n))
		return true;
	if (buf_puts(&more, has.len && has.data[has.len - 1] != '\n' ? "\n" : "") < 0 ||
	    buf_append(&more, pem.p, pem.n) < 0)
		return false;
	return file_write(path, O_APPEND, (struct slice){ more.data, more.len });
}

static void env_add(const char *key, const char *value)
{
	env_keys[env.n] = key;
	env_values[env.n++] = value;
}

static void env_set(const char *bundle)
{
	env.n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bundle_variables); i++)
		env_add(bundle_variables[i], bundle);
	for (size_t i = 0; i < ARRAY_SIZE(alone_variables); i++)
		env_add(alone_variables[i], ALONE);
	env_add("UV_NATIVE_TLS", "1");
}

/* The lines between the first two that begin with dashes: base64, which has no such line. */
static int pem_append_body(struct slice pem, struct buf *to)
{
	unsigned dashed = 0;

	while (pem.n && dashed < 2) {
		struct slice line = slice_trim(slice_cut(&pem, '\n'));

		if (line.n && line.p[0] == '-')
			dashed++;
		else if (dashed == 1 && buf_append(to, line.p, line.n) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Browsers have certificates of their own; they add those that a policy names. */
static void browser_policies_write(struct slice pem)
{
	auto_buf text = BUF_INIT(KIB(16)), der = BUF_INIT(KIB(8));
	struct jw w = jw_to(&text);

	if (pem_append_body(pem, &der) < 0)
		return;
	jw_object_begin(&w, NULL);
	jw_array_begin(&w, "CACertificates");
	jw_str(&w, NULL, buf_str(&der));
	jw_end(&w);
	jw_end(&w);
	if (jw_finish(&w) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(browser_policies); i++)
		(void)file_write(browser_policies[i], O_CREAT | O_TRUNC,
				 (struct slice){ text.data, text.len });
}

void trust_add(struct slice pem)
{
	const char *bundle = NULL;

	directories_create(anchors[0]);
	for (size_t i = 0; i < ARRAY_SIZE(anchors); i++)
		(void)file_write(anchors[i], O_CREAT | O_TRUNC, pem);
	browser_policies_write(pem);
	for (size_t i = 0; i < ARRAY_SIZE(bundles); i++)
		if (bundle_append(bundles[i], pem) && !bundle)
			bundle = bundles[i];
	if (!bundle) {
		directories_create(bundles[0]);
		if (file_write(bundles[0], O_CREAT | O_APPEND, pem))
			bundle = bundles[0];
	}
	if (bundle)
		env_set(bundle);
}

const struct field_map *trust_env(void)
{
	return env.n ? &env : NULL;
}
