/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/unpack-texts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int unpack_texts_create(struct unpack_texts *ret, struct cay_err *err)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL;
	struct unpack_texts t = { memfd_create("image-config", flags),
				  memfd_create("image-manifest", flags) };

	if (t.config_fd < 0 || t.manifest_fd < 0) {
		int r = errno;

		unpack_texts_fini(&t);
		return cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot create a memfd");
	}
	*ret = t;
	return 0;
}

/* *ret: its size, one the child may have written. */
static int unpack_text_seal(int fd, size_t max, size_t *ret, struct cay_err *err)
{
	struct stat st;

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
	    fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot seal a text");
	if (st.st_size <= 0 || (size_t)st.st_size > max)
		return cay_fail(err, CAY_E_INTERNAL, "the unpacker returned no config or manifest");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot rewind a text");
	*ret = (size_t)st.st_size;
	return 0;
}

int unpack_texts_seal(const struct unpack_texts *t, struct digest *ret_name, struct cay_err *err)
{
	auto_buf text = BUF_INIT(UNPACK_MANIFEST_MAX);
	size_t n = 0;
	int r = unpack_text_seal(t->config_fd, UNPACK_CONFIG_MAX, &n, err);

	if (r >= 0)
		r = unpack_text_seal(t->manifest_fd, UNPACK_MANIFEST_MAX, &n, err);
	if (r < 0)
		return r;
	if (buf_reserve(&text, n) < 0)
		return cay_no_memory(err);
	if (pread(t->manifest_fd, text.data, n, 0) != (ssize_t)n)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot read the manifest");
	/* the keeper hashes what identifies a layer, which does not begin as JSON does */
	if (!text.data[0] || !strchr("{ \t\r\n", text.data[0]))
		return cay_fail(err, CAY_E_INVALID, "the manifest is not a JSON object");
	return digest_compute(text.data, n, ret_name) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, "cannot hash the manifest")
		       : 0;
}

void unpack_texts_fini(struct unpack_texts *t)
{
	cay_closep(&t->config_fd);
	cay_closep(&t->manifest_fd);
}
