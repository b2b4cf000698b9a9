/* SPDX-License-Identifier: Apache-2.0 */
/* $M, $I, $C, $T stand for media types, $Z for a digest, $A for our architecture. */
#include <errno.h>

#include "unit.h"
#include "unpack/manifest.h"

#ifdef __aarch64__
#define ARCH "arm64"
#else
#define ARCH "amd64"
#endif
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static const struct {
	char letter;
	const char *text;
} marks[] = {
	{ 'M', "application/vnd.oci.image.manifest.v1+json" },
	{ 'D', "application/vnd.docker.distribution.manifest.v2+json" },
	{ 'I', "application/vnd.oci.image.index.v1+json" },
	{ 'C', "application/vnd.oci.image.config.v1+json" },
	{ 'T', "application/vnd.oci.image.layer.v1.tar" },
	{ 'Z', "sha256:" ZEROS },
	{ 'O', "sha256:1" ZEROS }, /* a digit too many */
	{ 'A', ARCH },
};

static struct slice fill_in(const char *pattern, struct buf *ret)
{
	for (const char *p = pattern; *p; p++) {
		size_t i = 0;

		while (*p == '$' && i < ARRAY_SIZE(marks) && marks[i].letter != p[1])
			i++;
		if (*p == '$') {
			assert_true(i < ARRAY_SIZE(marks));
			assert_int_equal(buf_puts(ret, marks[i].text), 0);
			p++;
		} else {
			assert_int_equal(buf_putc(ret, *p == '\'' ? '"' : *p), 0);
		}
	}
	return (struct slice){ buf_str(ret), ret->len };
}

#define ONE "'digest':'$Z','size':5"
#define OURS "'platform':{'os':'linux','architecture':'$A'}"
#define THEIRS "'platform':{'os':'linux','architecture':'vax'}"

static void one_manifest_is_picked(void **)
{
	static const struct {
		const char *index;
		unsigned media;  /* 0: refused */
		const char *why; /* then */
		uint64_t size;
	} rows[] = {
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M'," ONE "}]}", MEDIA_MANIFEST,
		  "", 5 },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$D'," ONE "}]}", MEDIA_MANIFEST,
		  "", 5 },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$I'," ONE "}]}", MEDIA_INDEX, "",
		  5 },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M'," ONE "," OURS "}]}",
		  MEDIA_MANIFEST, "", 5 },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M'," ONE "," THEIRS "}]}", 0,
		  "no image for" },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M'," ONE "," THEIRS
		  "},{'mediaType':'$M','digest':'$Z','size':6," OURS "}]}",
		  MEDIA_MANIFEST, "", 6 },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$T'," ONE "}]}", 0,
		  "no image for" },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M'," ONE
		  "},{'mediaType':'$M'," ONE "}]}",
		  MEDIA_MANIFEST, "", 5 },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M'," ONE
		  "},{'mediaType':'$M','size':1,'digest':'sha256:"
		  "1000000000000000000000000000000000000000000000000000000000000000'}]}",
		  0, "several" },
		{ "{'schemaVersion':2,'manifests':[]}", 0, "no image" },
		{ "{'schemaVersion':1,'manifests':[{'mediaType':'$M'," ONE "}]}", 0,
		  "schemaVersion" },
		{ "{'schemaVersion':2,'layers':[],'manifests':[{'mediaType':'$M'," ONE "}]}", 0,
		  "something else" },
		{ "{'schemaVersion':2,'mediaType':'$M','manifests':[{'mediaType':'$M'," ONE "}]}",
		  0, "something else" },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M','digest':'$O','size':5}]}", 0,
		  "digest" },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M','digest':'$Z','size':-5}]}", 0,
		  "size" },
		{ "{'schemaVersion':2,'manifests':[{'mediaType':'$M','digest':'$Z','size':'5'}]}",
		  0, "size" },
		{ "[]", 0, "object" },
		{ "x", 0, "JSON" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(KIB(64));
		struct image_choice choice = {};
		struct descriptor d = {};
		struct cay_err err = {};
		int r = manifest_pick_platform(fill_in(rows[i].index, &text), &choice, &d, &err);

		row_check(i, r == (rows[i].media ? 0 : -EINVAL));
		row_check(i, r < 0 || (d.media == rows[i].media && d.size == rows[i].size));
		row_check(i, r >= 0 || strstr(err.msg, rows[i].why));
	}
}

#define OTHER \
	"'size':6,'digest':'sha256:" \
	"1000000000000000000000000000000000000000000000000000000000000000'"

static void one_of_several_is_picked_by_its_number(void **)
{
	static const char *index =
		"{'schemaVersion':2,'manifests':["
		"{'mediaType':'$M'," ONE ",'annotations':{'io.containerd.image.name':'d.io/a:1',"
		"'org.opencontainers.image.ref.name':'1'}},"
		"{'mediaType':'$M'," ONE "," THEIRS "},"
		"{'mediaType':'$M'," OTHER
		",'annotations':{'org.opencontainers.image.ref.name':'b:1'"
		"}}]}";

	for (uint64_t which = 0; which <= 3; which++) {
		struct image_choice choice = { .which = which };
		auto_buf text = BUF_INIT(KIB(64));
		struct descriptor d = {};
		int r = manifest_pick_platform(fill_in(index, &text), &choice, &d, NULL);

		assert_int_equal(choice.n_images, 2);
		assert_int_equal(r, which == 1 || which == 2 ? 0 : -EINVAL);
		if (r < 0)
			continue;
		assert_int_equal(d.size, which == 1 ? 5 : 6);
		assert_int_equal(choice.n_names, 1);
		assert_string_equal(choice.names[0], which == 1 ? "d.io/a:1" : "b:1");
	}
}

#define CONFIG "'config':{'mediaType':'$C'," ONE "}"
#define LAYER "{'mediaType':'$T'," ONE "}"

static void manifests_have_a_config_and_layers(void **)
{
	static const struct {
		const char *text, *why; /* NULL: fine */
	} rows[] = {
		{ "{'schemaVersion':2," CONFIG ",'layers':[" LAYER "]}", NULL },
		{ "{'schemaVersion':2," CONFIG ",'layers':[" LAYER "," LAYER "],'x':{}}", NULL },
		{ "{'schemaVersion':2," CONFIG ",'layers':[]}", "no layers" },
		{ "{'schemaVersion':2," CONFIG "}", "no layers" },
		{ "{'schemaVersion':2,'layers':[" LAYER "]}", "config" },
		{ "{'schemaVersion':2,'config':" LAYER ",'layers':[" LAYER "]}", "artifact" },
		{ "{'schemaVersion':2," CONFIG ",'layers':[{'mediaType':'$M'," ONE "}]}",
		  "not a tar" },
		{ "{'schemaVersion':2," CONFIG
		  ",'layers':[{'mediaType':'$T','digest':'$Z','size':0}]}",
		  "no bytes" },
		{ "{'schemaVersion':2,'manifests':[]," CONFIG ",'layers':[" LAYER "]}",
		  "something else" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(KIB(64));
		struct cay_err err = {};
		struct manifest m;
		int r = manifest_parse(fill_in(rows[i].text, &text), &m, &err);

		row_check(i, r == (rows[i].why ? -EINVAL : 0));
		row_check(i, !rows[i].why || strstr(err.msg, rows[i].why));
	}
}

static void layers_are_counted(void **)
{
	for (size_t n = MANIFEST_LAYERS_MAX; n <= MANIFEST_LAYERS_MAX + 1; n++) {
		auto_buf text = BUF_INIT(KIB(64)), json = BUF_INIT(KIB(64));
		struct cay_err err = {};
		struct manifest m;
		int r;

		assert_int_equal(buf_puts(&text, "{'schemaVersion':2," CONFIG ",'layers':["), 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(buf_puts(&text, i ? "," LAYER : LAYER), 0);
		assert_int_equal(buf_puts(&text, "]}"), 0);
		r = manifest_parse(fill_in(text.data, &json), &m, &err);
		assert_int_equal(r, n > MANIFEST_LAYERS_MAX ? -EINVAL : 0);
	}
}

#define ROOTFS "'os':'linux','architecture':'$A','rootfs':{'type':'layers','diff_ids':['$Z']}"

static void of_a_config_four_things_are_taken(void **)
{
	static const struct {
		const char *text, *json; /* or NULL, */
		const char *why;         /* and then this is said */
	} rows[] = {
		{ "{" ROOTFS "}", "{'env':{}}" },
		{ "{" ROOTFS ",'config':null}", "{'env':{}}" },
		{ "{" ROOTFS ",'config':{'Env':['A=1','B=2=3'],'User':'1:2','WorkingDir':'/w'}}",
		  "{'env':{'A':'1','B':'2=3'},'user':'1:2','cwd':'/w'}" },
		{ "{" ROOTFS ",'config':{'Env':['A=1','A=2','=3','4=4','B',5,null,'C-D=6']}}",
		  "{'env':{'A':'2'}}" },
		{ "{" ROOTFS ",'config':{'Labels':{'x':'y'},'Entrypoint':['reboot'],'User':'',"
		  "'WorkingDir':''}}",
		  "{'env':{},'argv':['reboot']}" },
		{ "{" ROOTFS ",'config':{'User':'root\\n'}}", NULL, "user" },
		{ "{" ROOTFS ",'config':{'User':5}}", NULL, "user" },
		{ "{" ROOTFS ",'config':{'WorkingDir':'w'}}", NULL, "cwd" },
		{ "{'os':'linux','architecture':'$A'}", NULL, "rootfs" },
		{ "{'os':'linux','architecture':'$A','rootfs':{'type':'x','diff_ids':['$Z']}}",
		  NULL, "rootfs" },
		{ "{'os':'linux','architecture':'$A','rootfs':{'type':'layers','diff_ids':[]}}",
		  NULL, "0 diff_ids for 1" },
		{ "{'os':'linux','architecture':'$A','rootfs':{'type':'layers','diff_ids':['$O']}}",
		  NULL, "diff_id 1" },
		{ "{'os':'linux','architecture':'vax','rootfs':{'type':'layers','diff_ids':['$Z']}"
		  "}",
		  NULL, "not for linux" },
		{ "{'os':'plan9','architecture':'$A','rootfs':{'type':'layers','diff_ids':['$Z']}}",
		  NULL, "not for linux" },
		{ "[]", NULL, "object" },
	};

	static const struct image_choice only = {};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(KIB(64)), json = BUF_INIT(KIB(64)),
			 want = BUF_INIT(KIB(64));
		struct digest ids[MANIFEST_LAYERS_MAX];
		struct cay_err err = {};
		int r = manifest_parse_config(fill_in(rows[i].text, &text), 1, &only, ids, &json,
					      &err);

		row_check(i, r == (rows[i].json ? 0 : -EINVAL));
		if (rows[i].json)
			assert_string_equal(buf_str(&json), fill_in(rows[i].json, &want).p);
		else
			row_check(i, strstr(err.msg, rows[i].why) && !json.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_manifest_is_picked),
		cmocka_unit_test(one_of_several_is_picked_by_its_number),
		cmocka_unit_test(manifests_have_a_config_and_layers),
		cmocka_unit_test(layers_are_counted),
		cmocka_unit_test(of_a_config_four_things_are_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
