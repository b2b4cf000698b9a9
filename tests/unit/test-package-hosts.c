/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/buf.h"
#include "egress/package-hosts.h"
#include "unit.h"

static int on_host(void *arg, const struct package_host *h)
{
	assert_int_equal(h->port == 0, h->host[0] == 0);
	return buf_printf(arg, "%s:%u@%u ", h->host, h->port, h->line);
}

static void assert_hosts(enum package_syntax syntax, const char *text, const char *expected)
{
	auto_buf found = BUF_INIT(KIB(16));

	assert_int_equal(package_hosts_read(syntax, slice_of(text), on_host, &found), 0);
	assert_string_equal(buf_str(&found), expected);
}

static void hosts_of_urls(void **)
{
	static const char *const cases[][2] = {
		{ "https://a.example/simple", "a.example:443@1 " },
		{ "http://A.Example:8080", "a.example:8080@1 " },
		{ "https://a.example:/x", "a.example:443@1 " },
		{ "https://a.example./x", "a.example:443@1 " },
		{ "ssh://git@a.example/x.git", "a.example:22@1 " },
		{ "sparse+https://a.example/index/", "a.example:443@1 " },
		{ "mirror+http://a.example/list", "a.example:80@1 " },
		{ "name=https://a.example/x", "a.example:443@1 " },
		{ "http://192.0.2.7:81/", "192.0.2.7:81@1 " },
		{ "https://user:pass@a.example/", "a.example:443@1 " },
		{ "https://user:p@ss@a.example/", "a.example:443@1 " },
		{ "https://a.example?https://b.example", "a.example:443@1 " },
		{ "https://a.example#@b.example", "a.example:443@1 " },
		{ "https://a.example\\@b.example", "a.example:443@1 " },
		{ "https://a.example/@b.example", "a.example:443@1 " },
		{ "https://a.example b.example", "a.example:443@1 " },
		{ "https://a.example\nhttps://b.example", "a.example:443@1 b.example:443@2 " },
		/* no host, and nothing to say about it */
		{ "direct", "" },
		{ "file:///srv/index", "" },
		{ "mirror+file:///etc/apt/mirrors", "" },
		{ "file:/srv", "" },
		{ "https:///simple", "" },
		{ "http://0.0.0.0/", "" },
		{ "", "" },
		/* one that no rule can name */
		{ "https://localhost/simple", ":0@1 " },
		{ "https://[::1]:443/", ":0@1 " },
		{ "https://${HOST}/x", ":0@1 " },
		{ "https://*.example/x", ":0@1 " },
		{ "https://*/x", ":0@1 " },
		{ "https://a.%65xample/", ":0@1 " },
		{ "https://a.example:0/", ":0@1 " },
		{ "https://a.example:65536/", ":0@1 " },
		{ "https://a.example:443x/", ":0@1 " },
		{ "gopher://a.example/", ":0@1 " },
		{ "://a.example/", ":0@1 " },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_hosts(PACKAGE_WORDS, cases[i][0], cases[i][1]);
	assert_hosts(PACKAGE_PROXIES, "https://a.example|https://b.example,direct",
		     "a.example:443@1 b.example:443@1 ");
}

static void hosts_of_apt(void **)
{
	assert_hosts(PACKAGE_APT_LIST,
		     "# deb http://no.example/ x main\n"
		     "deb [ arch=amd64 signed-by=/k ] http://a.example/debian x main # "
		     "http://no.example\r\n"
		     "\tdeb-src\thttps://b.example/ x main\n"
		     "rpm http://no.example/ x\n"
		     "deb cdrom:[Debian]/ x main\ndeb\ndeb [",
		     "a.example:80@2 b.example:443@3 ");
	assert_hosts(PACKAGE_APT_SOURCES,
		     "Types: deb\nURIs: http://a.example/debian\n https://b.example\n#\n"
		     " https://c.example\nSuites: x\n https://no.example\n\n"
		     "Enabled: no\nURIs: https://no.example\n \t\r\n"
		     "uris:https://d.example\nenabled: yes",
		     "a.example:80@2 b.example:443@3 c.example:443@5 d.example:443@12 ");
}

static void hosts_of_members(void **)
{
	assert_hosts(PACKAGE_PIP,
		     "[global]\nindex-url = https://u:p@a.example/simple\n"
		     "extra_index_url:\n    https://b.example/x\n    ; https://no.example\n"
		     "    https://c.example\ntrusted-host = no.example\nproxy = http://no.example\n"
		     "[install]\nFIND-LINKS=https://d.example /local\n",
		     "a.example:443@2 b.example:443@4 c.example:443@6 d.example:443@10 ");
	assert_hosts(PACKAGE_NPM,
		     "registry=https://a.example/\n @x:registry = \"https://b.example/npm\"\n"
		     "//no.example/:_authToken=npm_secret\n;registry=https://no.example\n"
		     "x:registry=https://no.example\nproxy=http://no.example\n",
		     "a.example:443@1 b.example:443@2 ");
	assert_hosts(PACKAGE_GO, "GOPROXY=https://a.example,https://b.example|direct\nGOFLAGS=-x\n",
		     "a.example:443@1 b.example:443@1 ");
}

static void hosts_of_toml(void **)
{
	assert_hosts(PACKAGE_TOML,
		     "[source.crates-io]\nreplace-with = \"m\" # https://no.example\n"
		     "[source.\"https://no.example\"]\nregistry = \"sparse+https://a.example/\"\n"
		     "[registries]\nx.index = 'https://b.example'\n"
		     "y = { token = \"https://no.example\", index = \"https://c.example\" }\n",
		     "a.example:443@4 b.example:443@6 c.example:443@7 ");
	assert_hosts(
		PACKAGE_TOML,
		"extra-index-url = [\n  \"https://a.example\", # no\n  'https://b.example'\n]\n"
		"[[index]]\nname = \"x\"\nurl = \"\"\"\nhttps://c.example\"\"\"\n"
		"index = [{ url = \"https://d.example\", \"https://no.example\" = 1 }]\n"
		"[pip]\nindex-url = \"https://e.example\\\" https://f.example\n"
		"other = \"https://no.example\"\nurl = \"\"\"https://g.example",
		"a.example:443@2 b.example:443@3 c.example:443@8 d.example:443@9 "
		"e.example:443@11 f.example:443@11 g.example:443@13 ");
	assert_hosts(PACKAGE_TOML, "]}=[{url=", "");
}

static void hosts_of_maven(void **)
{
	assert_hosts(PACKAGE_MAVEN,
		     "<settings><!-- <url>https://no.example</url> -->\n<mirrors><mirror>\n"
		     "<id>x</id><url>\n https://a.example/maven2\n</url></mirror>\n"
		     "<mirror><url>http://0.0.0.0/</url></mirror></mirrors>\n"
		     "<password>https://no.example</password>\n"
		     "<url >https://b.example</url></settings><!-- <url>https://no.example",
		     "a.example:443@4 b.example:443@8 ");
	assert_hosts(PACKAGE_MAVEN, "<url", "");
}

static int on_first_host(void *arg, const struct package_host *)
{
	return ++*(int *)arg == 1 ? -E2BIG : 0;
}

static void a_reader_can_be_ended(void **)
{
	static const char *const texts[PACKAGE_SYNTAX_NUM] = {
		[PACKAGE_APT_LIST] = "deb http://a.example x\ndeb http://b.example x\n",
		[PACKAGE_APT_SOURCES] = "URIs: http://a.example http://b.example\n",
		[PACKAGE_PIP] = "index-url=http://a.example\nfind-links=http://b.example\n",
		[PACKAGE_NPM] = "registry=http://a.example\nregistry=http://b.example\n",
		[PACKAGE_TOML] = "url='http://a.example'\nurl='http://b.example'",
		[PACKAGE_GO] = "GOPROXY=http://a.example,http://b.example\n",
		[PACKAGE_MAVEN] = "<url>http://a.example</url><url>http://b.example</url>",
		[PACKAGE_WORDS] = "http://a.example http://b.example",
		[PACKAGE_PROXIES] = "http://a.example,http://b.example",
	};

	for (unsigned i = 0; i < PACKAGE_SYNTAX_NUM; i++) {
		int n = 0;

		assert_int_equal(package_hosts_read(i, slice_of(texts[i]), on_first_host, &n),
				 -E2BIG);
		assert_int_equal(n, 1);
	}
	assert_int_equal(package_hosts_read(PACKAGE_SYNTAX_NUM, SLICE("x"), on_first_host, NULL),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_of_urls),    cmocka_unit_test(hosts_of_apt),
		cmocka_unit_test(hosts_of_members), cmocka_unit_test(hosts_of_toml),
		cmocka_unit_test(hosts_of_maven),   cmocka_unit_test(a_reader_can_be_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
