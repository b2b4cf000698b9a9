/* SPDX-License-Identifier: Apache-2.0 */
/* From the environment of the user to a connection that is ready for requests */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/endian.h"
#include "init/exec/exec-child.h"
#include "init/screen/x-conn.h"

#define AUTHORITY_MAX KIB(64)
#define COOKIE_NAME SLICE("MIT-MAGIC-COOKIE-1")
#define COOKIE_MAX 64
#define RETRY_MS 20

/* of the reply to a greeting, after its head of 8 bytes */
#define SETUP_HEAD 8
#define SETUP_FIXED 32
#define FORMAT_SIZE 8
#define SCREEN_SIZE 40
#define DEPTH_SIZE 8
#define VISUAL_SIZE 24

enum { REQUEST_QUERY_EXTENSION = 98 };

static struct slice bytes_take(struct slice *from, size_t n)
{
	struct slice part = { from->p, n };

	if (!from->p || from->n < n) {
		*from = (struct slice){};
		return (struct slice){};
	}
	from->p += n;
	from->n -= n;
	return part;
}

static const uint8_t *bytes_of(struct slice s)
{
	return (const uint8_t *)s.p;
}

/* A text with its length in front, as entries of an authority file have four. */
static struct slice counted_take(struct slice *from)
{
	struct slice length = bytes_take(from, 2);

	return length.p ? bytes_take(from, be16_get(bytes_of(length))) : (struct slice){};
}

struct slice x_authority_find(struct slice file, unsigned display)
{
	char number[12];
	int n = snprintf(number, sizeof(number), "%u", display);

	while (bytes_take(&file, 2).p) { /* family: whatever the host is called, it is this one */
		struct slice address = counted_take(&file), of = counted_take(&file);
		struct slice name = counted_take(&file), data = counted_take(&file);

		if (!address.p || !data.p || n < 0)
			break;
		if ((!of.n || slice_eq(of, (struct slice){ number, (size_t)n })) &&
		    slice_eq(name, COOKIE_NAME) && data.n <= COOKIE_MAX)
			return data;
	}
	return (struct slice){};
}

int x_display_parse(const char *text, unsigned *ret)
{
	struct slice s = slice_of(text), number;
	uint64_t n;

	if (s.n >= 4 && memcmp(s.p, "unix", 4) == 0)
		s = (struct slice){ s.p + 4, s.n - 4 };
	if (!s.n || s.p[0] != ':')
		return -EINVAL;
	s = (struct slice){ s.p + 1, s.n - 1 };
	number = slice_cut(&s, '.');
	if (str_parse_u64(number, 0, 65535, &n) < 0)
		return -EINVAL;
	*ret = (unsigned)n;
	return 0;
}

/* The shift of a color that has eight bits of a pixel. */
static bool x_shift_of(const uint8_t *mask, uint8_t *ret)
{
	uint32_t m = le32_get(mask);

	*ret = m ? (uint8_t)__builtin_ctz(m) : 0;
	return m >> *ret == 0xff;
}

/* Find the visual of the root window among those of its depths. */
static int x_read_visual(struct x_conn *c, struct slice depths, unsigned n, uint32_t root_visual)
{
	while (n--) {
		struct slice depth = bytes_take(&depths, DEPTH_SIZE);

		if (!depth.p)
			return -EPROTO;
		for (unsigned left = le16_get(bytes_of(depth) + 2); left; left--) {
			struct slice visual = bytes_take(&depths, VISUAL_SIZE);

			if (!visual.p)
				return -EPROTO;
			if (le32_get(bytes_of(visual)) == root_visual)
				return x_shift_of(bytes_of(visual) + 8, &c->red) &&
						       x_shift_of(bytes_of(visual) + 12,
								  &c->green) &&
						       x_shift_of(bytes_of(visual) + 16, &c->blue)
					       ? 0
					       : -ENOTSUP;
		}
	}
	return -EPROTO;
}

/* Whether pixels of that depth have 32 bits. */
static bool x_has_format(struct slice formats, uint8_t depth)
{
	for (; formats.n >= FORMAT_SIZE; (void)bytes_take(&formats, FORMAT_SIZE))
		if (bytes_of(formats)[0] == depth)
			return bytes_of(formats)[1] == 32;
	return false;
}

static int x_read_setup(struct x_conn *c, struct slice in)
{
	struct slice head = bytes_take(&in, SETUP_FIXED), formats, screen;
	const uint8_t *p = bytes_of(head), *s;
	uint8_t depth;

	if (!p)
		return -EPROTO;
	(void)bytes_take(&in, (le16_get(p + 16) + 3u) & ~3u); /* the vendor */
	formats = bytes_take(&in, (size_t)p[21] * FORMAT_SIZE);
	screen = bytes_take(&in, SCREEN_SIZE);
	if (!screen.p)
		return -EPROTO;
	c->id_base = le32_get(p + 4);
	c->id_mask = le32_get(p + 8);
	c->max_request = le16_get(p + 18);
	c->min_keycode = p[26];
	c->max_keycode = p[27];
	s = bytes_of(screen);
	c->root = le32_get(s);
	c->width = le16_get(s + 20);
	c->height = le16_get(s + 22);
	depth = s[38];
	if (c->min_keycode < 8 || c->max_keycode < c->min_keycode || !c->width || !c->height)
		return -EPROTO;
	if (p[22] != 0 || (depth != 24 && depth != 32) || !x_has_format(formats, depth))
		return -ENOTSUP;
	return x_read_visual(c, in, s[39], le32_get(s + 32));
}

static int x_find_extension(struct x_conn *c, const char *name, uint8_t *ret, struct cay_err *err)
{
	struct slice text = slice_of(name);
	uint8_t request[32] = { REQUEST_QUERY_EXTENSION };
	int r;

	le16_put(request + 4, (uint16_t)text.n);
	memcpy(request + 8, text.p, text.n);
	r = x_require(c, request, 8 + (text.n + 3) / 4 * 4, 32, 32, err);
	if (r >= 0)
		*ret = x_reply(c)[8] ? x_reply(c)[9] : 0;
	return r;
}

static int x_send_greeting(struct x_conn *c, struct slice cookie, struct cay_err *err)
{
	uint8_t hello[12 + 20 + COOKIE_MAX] = { 'l' };
	size_t n = 12;

	le16_put(hello + 2, 11);
	if (cookie.n && cookie.n <= COOKIE_MAX) {
		le16_put(hello + 6, (uint16_t)COOKIE_NAME.n);
		le16_put(hello + 8, (uint16_t)cookie.n);
		memcpy(hello + n, COOKIE_NAME.p, COOKIE_NAME.n);
		memcpy(hello + n + 20, cookie.p, cookie.n);
		n += 20 + (cookie.n + 3) / 4 * 4;
	}
	for (size_t at = 0; at < n;) {
		ssize_t done = write(c->out, hello + at, n - at);

		if (done <= 0)
			return x_fail(err, "has ended");
		at += (size_t)done;
	}
	return 0;
}

/* The whole answer to the greeting, into c->reply. */
static int x_read_greeting(struct x_conn *c, struct cay_err *err)
{
	size_t want = SETUP_HEAD;

	buf_clear(&c->reply);
	while (c->reply.len < want) {
		ssize_t n;

		if (buf_reserve(&c->reply, want - c->reply.len) < 0)
			return cay_no_memory(err);
		n = read(c->in, c->reply.data + c->reply.len, want - c->reply.len);
		if (n <= 0)
			return x_fail(err, "does not answer");
		c->reply.len += (size_t)n;
		if (c->reply.len == SETUP_HEAD)
			want += (size_t)le16_get(x_reply(c) + 6) * 4;
	}
	return 0;
}

int x_conn_greet(struct x_conn *c, struct slice cookie, struct cay_err *err)
{
	int r = x_send_greeting(c, cookie, err);

	if (r >= 0)
		r = x_read_greeting(c, err);
	if (r < 0)
		return r;
	if (x_reply(c)[0] != 1)
		return cay_fail(err, CAY_E_FORBIDDEN,
				"the X server of the sandbox refused its user: XAUTHORITY names "
				"no cookie that it takes");
	r = x_read_setup(c,
			 (struct slice){ c->reply.data + SETUP_HEAD, c->reply.len - SETUP_HEAD });
	if (r == -ENOTSUP)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"the screen of the sandbox has other pixels than 24 bits in 32");
	if (r < 0)
		return x_fail(err, "sent a greeting that is not X11");
	if (x_find_extension(c, "XTEST", &c->xtest, err) < 0 ||
	    x_find_extension(c, "XFIXES", &c->xfixes, err) < 0 ||
	    x_find_extension(c, "DAMAGE", &c->damage, err) < 0)
		return -EPROTO;
	return 0;
}

static int x_connect(const struct sockaddr_un *to, uint64_t wait_ms)
{
	struct timeval patience = { .tv_sec = X_PATIENCE_S };

	for (uint64_t waited = 0;; waited += RETRY_MS) {
		auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
			return cay_take_fd(&fd);
		if ((errno != ENOENT && errno != ECONNREFUSED) || waited >= wait_ms)
			return -errno;
		(void)poll(NULL, 0, RETRY_MS);
	}
}

/* The cookie of the user for this display; empty if there is none. */
static struct slice x_authority_read(unsigned display, struct buf *file)
{
	const char *path = getenv("XAUTHORITY"), *home = getenv("HOME");
	auto_buf at = BUF_INIT(KIB(8));

	if (!path && home && buf_printf(&at, "%s/.Xauthority", home) >= 0)
		path = buf_str(&at);
	if (!path || image_file_read(path, file) < 0)
		return (struct slice){};
	return x_authority_find((struct slice){ file->data, file->len }, display);
}

int x_conn_open(struct x_conn *c, bool is_starting, struct cay_err *err)
{
	const char *display = getenv("DISPLAY");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	auto_buf file = BUF_INIT(AUTHORITY_MAX);
	unsigned number;
	int r;

	display = display && display[0] ? display : ":0";
	if (x_display_parse(display, &number) < 0)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"DISPLAY of the sandbox is not a screen in it, such as :0");
	r = snprintf(to.sun_path, sizeof(to.sun_path), "/tmp/.X11-unix/X%u", number);
	assert(r > 0 && (size_t)r < sizeof(to.sun_path));
	r = x_connect(&to, is_starting ? X_WAIT_MS : 0);
	if (r < 0) {
		r = cay_fail(err, CAY_E_UNSUPPORTED,
			     "the sandbox has no screen: no X server is on display :%u", number);
		cay_err_hint(err, "create it from an image with a screen, such as `desktop`; "
				  "`cay service ls SANDBOX` says whether its screen runs");
		return r;
	}
	c->in = c->out = r;
	return x_conn_greet(c, x_authority_read(number, &file), err);
}
