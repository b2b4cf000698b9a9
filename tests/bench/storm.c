/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm - more requests than a server on 127.0.0.1 can do
 *
 *	storm PORT SECONDS WARM CONNS TIMEOUT_MS < CLASSES
 *
 * A line of CLASSES is a crowd of clients: RATE RETRIES METHOD TARGET BEARER [BODY].  Its
 * requests are due RATE times a second whatever becomes of the earlier ones (open loop,
 * with jitter), on at most CONNS connections which all crowds share.  A request's time
 * runs from when it was due, so that one that waits for a connection of ours is late, not
 * forgotten.  What is refused, fails or takes longer than TIMEOUT_MS is sent again at
 * most RETRIES times, after AGAIN_NS, whatever Retry-After says.  A sandbox that was made
 * (201) counts if it runs.
 *
 * Prints a line of JSON a crowd.  Counts are of the requests due after WARM seconds;
 * per_s are successes by the second they came in, from the start.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/http.h"
#include "net/conn.h"

#define CONNS_MAX 20000
#define CLASSES_MAX 256
#define WAITING_MAX (1u << 18)
#define SECONDS_MAX 600
#define AGAIN_NS (50 * NS_PER_MS)
#define SOON_NS (50 * NS_PER_MS) /* a refusal within this is counted apart */
#define SUB 16                   /* steps a power of two of a time has */
#define STEPS (64 * SUB)

struct times {
	uint64_t n, step[STEPS], max_us;
};

struct crowd {
	double rate;
	unsigned retries;
	char request[2048];
	size_t n_request;
	double next_ns;
	uint64_t due, refused_soon, no_retry_after, other, timeouts, late, broken;
	struct times ok, refused;
	unsigned per_s[SECONDS_MAX];
};

struct due {
	struct crowd *crowd;
	uint64_t at_ns; /* for one that is sent again: not before */
	unsigned left;  /* times it may be sent again */
};

/* First in, first out. */
struct line {
	struct due *at;
	size_t first, n;
};

struct one {
	struct storm *storm;
	struct conn *conn;
	struct http_parser http;
	struct due doing; /* crowd NULL: idle */
	bool made;        /* its answer tells of a sandbox that runs */
	struct one *next_idle;
	unsigned slot;
};

struct storm {
	uv_loop_t loop;
	uv_timer_t tick;
	struct conn_shared *room;
	struct sockaddr_in to;
	uint64_t begin_ns, warm_ns, end_ns, timeout_ns, seed;
	unsigned max, n_conns, n_crowds;
	struct one *ones[CONNS_MAX], *idle;
	struct line waiting, again;
	struct crowd crowds[CLASSES_MAX];
};

[[noreturn]] static void die(const char *what)
{
	(void)fprintf(stderr, "storm: %s\n", what);
	exit(1);
}

static void push(struct line *l, const struct due *d)
{
	if (l->n == WAITING_MAX)
		die("too many wait for a connection");
	l->at[(l->first + l->n++) % WAITING_MAX] = *d;
}

static struct due pop(struct line *l)
{
	struct due d = l->at[l->first];

	l->first = (l->first + 1) % WAITING_MAX;
	l->n--;
	return d;
}

static void note(struct times *t, uint64_t ns)
{
	uint64_t us = ns / 1000 + 1;
	unsigned two = 63 - (unsigned)__builtin_clzll(us);
	uint64_t sub = two < 4 ? 0 : (us - (UINT64_C(1) << two)) >> (two - 4);

	t->step[two * SUB + sub]++;
	t->n++;
	if (us > t->max_us)
		t->max_us = us;
}

static double at_percent(const struct times *t, double percent)
{
	uint64_t want = (uint64_t)((double)t->n * percent / 100), seen = 0;

	for (unsigned i = 0; t->n && i < STEPS; i++) {
		seen += t->step[i];
		if (seen > want || seen == t->n) {
			double low = (double)(UINT64_C(1) << i / SUB);

			return (low + low * (i % SUB + 1) / SUB) / 1000;
		}
	}
	return 0;
}

static void ask(struct storm *s, const struct due *d);

static bool counts(const struct storm *s, const struct due *d)
{
	return d->at_ns >= s->warm_ns;
}

/* It did not succeed. */
static void once_more(struct storm *s, struct due d)
{
	if (!d.left--)
		return;
	d.at_ns = uv_hrtime() + AGAIN_NS;
	push(&s->again, &d);
}

static void on_closed(struct conn *c)
{
	free(conn_data(c));
}

static void drop(struct one *o)
{
	struct storm *s = o->storm;
	struct one **at = &s->idle;

	while (*at && *at != o)
		at = &(*at)->next_idle;
	if (*at)
		*at = o->next_idle;
	s->ones[o->slot] = s->ones[--s->n_conns];
	s->ones[o->slot]->slot = o->slot;
	conn_close(o->conn);
}

static void lose(struct one *o, uint64_t *count)
{
	struct due d = o->doing;
	struct storm *s = o->storm;

	drop(o);
	if (!d.crowd)
		return;
	if (counts(s, &d))
		++*count;
	once_more(s, d);
}

static void on_end(struct conn *c, const struct cay_err *)
{
	struct one *o = conn_data(c);

	lose(o, o->doing.crowd ? &o->doing.crowd->broken : NULL);
}

static void on_stuck(struct conn *c)
{
	on_end(c, NULL);
}

static void next(struct one *o)
{
	struct storm *s = o->storm;

	o->doing = (struct due){};
	o->next_idle = s->idle;
	s->idle = o;
	while (s->waiting.n && s->idle) {
		struct due d = pop(&s->waiting);

		if (uv_hrtime() - d.at_ns > s->timeout_ns)
			d.crowd->late += counts(s, &d);
		else
			ask(s, &d);
	}
}

static void answered(struct one *o)
{
	struct storm *s = o->storm;
	struct due d = o->doing;
	uint64_t now = uv_hrtime(), took = now - d.at_ns, second = (now - s->begin_ns) / NS_PER_S;
	unsigned status = o->http.head.status;
	bool ok = status < 300 && (status != 201 || o->made);
	bool refused = status == 429 || status == 503;

	if (ok && second < SECONDS_MAX)
		d.crowd->per_s[second]++;
	if (counts(s, &d)) {
		if (ok)
			note(&d.crowd->ok, took);
		else if (refused)
			note(&d.crowd->refused, took);
		else
			d.crowd->other++;
		if (refused && took <= SOON_NS)
			d.crowd->refused_soon++;
		if (refused && !http_header_find(&o->http.head, "retry-after").n)
			d.crowd->no_retry_after++;
	}
	if (!ok)
		once_more(s, d);
}

static void on_read(struct conn *c, struct slice in)
{
	struct one *o = conn_data(c);
	struct cay_err err = {};
	struct slice body;
	int r;

	if (!o->doing.crowd) {
		drop(o);
		return;
	}
	while ((r = http_parser_next(&o->http, &in, &body, &err)) > HTTP_MORE) {
		if (r == HTTP_BODY && memmem(body.p, body.n, "\"running\"", 9))
			o->made = true;
		if (r == HTTP_END) {
			bool kept = o->http.head.keep_alive;

			answered(o);
			http_parser_reset(&o->http);
			if (kept)
				next(o);
			else
				drop(o);
			return;
		}
	}
	if (r < 0)
		lose(o, &o->doing.crowd->broken);
}

static struct one *open_one(struct storm *s)
{
	static const struct conn_events events = {
		.read = on_read, .end = on_end, .stuck = on_stuck, .closed = on_closed
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct one *o = calloc(1, sizeof(*o));
	struct conn_conf conf = { .events = &events, .data = o, .out_max = KIB(64) };

	if (!o || fd < 0)
		die("no connection");
	if (connect(fd, (const struct sockaddr *)&s->to, sizeof(s->to)) < 0 && errno != EINPROGRESS)
		die("connect");
	o->storm = s;
	http_parser_init(&o->http, HTTP_KIND_RESPONSE);
	if (conn_open_fd(s->room, fd, AF_INET, &conf, &o->conn) < 0)
		die("no memory");
	o->slot = s->n_conns;
	s->ones[s->n_conns++] = o;
	conn_set_reading(o->conn, true);
	return o;
}

static void ask(struct storm *s, const struct due *d)
{
	struct one *o = s->idle;
	uv_buf_t v = uv_buf_init(d->crowd->request, (unsigned)d->crowd->n_request);

	if (o)
		s->idle = o->next_idle;
	else if (s->n_conns < s->max)
		o = open_one(s);
	if (!o) {
		push(&s->waiting, d);
		return;
	}
	o->doing = *d;
	o->made = false;
	if (conn_write(o->conn, &v, 1) < 0)
		lose(o, &d->crowd->broken);
}

/* Between half and one and a half of what is the mean: crowds do not march. */
static double jitter(struct storm *s)
{
	s->seed = s->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return 0.5 + (double)(s->seed >> 40) / (double)(1u << 24);
}

static void on_tick(uv_timer_t *t)
{
	struct storm *s = t->data;
	uint64_t now = uv_hrtime();

	for (unsigned i = 0; now < s->end_ns && i < s->n_crowds; i++)
		for (struct crowd *c = &s->crowds[i]; c->next_ns <= (double)now;) {
			struct due d = { c, (uint64_t)c->next_ns, c->retries };

			c->due += counts(s, &d);
			ask(s, &d);
			c->next_ns += (double)NS_PER_S / c->rate * jitter(s);
		}
	while (now < s->end_ns && s->again.n && s->again.at[s->again.first].at_ns <= now) {
		struct due d = pop(&s->again);

		d.crowd->due += counts(s, &d);
		ask(s, &d);
	}
	for (unsigned i = s->n_conns; i--;)
		if (s->ones[i]->doing.crowd && now - s->ones[i]->doing.at_ns > s->timeout_ns)
			lose(s->ones[i], &s->ones[i]->doing.crowd->timeouts);
	if (now > s->end_ns + s->timeout_ns + NS_PER_S)
		uv_stop(&s->loop);
}

static void read_crowd(struct storm *s, char *text)
{
	struct crowd *c = &s->crowds[s->n_crowds++];
	char *rate = strsep(&text, " "), *retries = strsep(&text, " ");
	char *method = strsep(&text, " "), *target = strsep(&text, " ");
	char *bearer = strsep(&text, " "), *body = text ? text : (char[]){ "" };
	uint64_t milli, again;
	int n;

	if (!bearer || str_parse_u64(slice_of(rate), 1, 1000000000, &milli) < 0 ||
	    str_parse_u64(slice_of(retries), 0, 1000, &again) < 0)
		die("RATE (thousandths a second) RETRIES METHOD TARGET BEARER [BODY]");
	n = snprintf(c->request, sizeof(c->request),
		     "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
		     "%sContent-Length: %zu\r\n\r\n%s",
		     method, target, bearer, *body ? "Content-Type: application/json\r\n" : "",
		     strlen(body), body);
	if (n < 0 || (size_t)n >= sizeof(c->request))
		die("a request is too long");
	c->n_request = (size_t)n;
	c->rate = (double)milli / 1000;
	c->retries = (unsigned)again;
	c->next_ns = (double)s->begin_ns + (double)NS_PER_S / c->rate * (jitter(s) - 0.5);
}

static void say(const struct crowd *c, unsigned seconds)
{
	(void)printf("{\"due\":%llu,\"ok\":%llu,\"refused\":%llu,\"refused_soon\":%llu,"
		     "\"no_retry_after\":%llu,\"other\":%llu,\"timeouts\":%llu,\"late\":%llu,"
		     "\"broken\":%llu,",
		     (unsigned long long)c->due, (unsigned long long)c->ok.n,
		     (unsigned long long)c->refused.n, (unsigned long long)c->refused_soon,
		     (unsigned long long)c->no_retry_after, (unsigned long long)c->other,
		     (unsigned long long)c->timeouts, (unsigned long long)c->late,
		     (unsigned long long)c->broken);
	(void)printf("\"ok_ms\":[%.2f,%.2f,%.2f],\"refused_ms\":[%.2f,%.2f,%.2f],\"per_s\":[",
		     at_percent(&c->ok, 50), at_percent(&c->ok, 99), (double)c->ok.max_us / 1000,
		     at_percent(&c->refused, 50), at_percent(&c->refused, 99),
		     (double)c->refused.max_us / 1000);
	for (unsigned i = 0; i < seconds; i++)
		(void)printf("%s%u", i ? "," : "", c->per_s[i]);
	(void)printf("]}\n");
}

int main(int argc, char **argv)
{
	static struct storm s;
	static char text[4096];
	uint64_t v[5];

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc != 6 || uv_loop_init(&s.loop) < 0)
		return 2;
	for (unsigned i = 0; i < 5; i++)
		if (str_parse_u64(slice_of(argv[i + 1]), 0, 1000000, &v[i]) < 0)
			die("not a number");
	s.room = conn_shared_new(&s.loop);
	s.waiting.at = calloc(WAITING_MAX, sizeof(struct due));
	s.again.at = calloc(WAITING_MAX, sizeof(struct due));
	if (!s.room || !s.waiting.at || !s.again.at || v[1] > SECONDS_MAX || v[3] > CONNS_MAX)
		die("too much");
	s.to = (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)v[0]),
				     .sin_addr = { htonl(INADDR_LOOPBACK) } };
	s.begin_ns = uv_hrtime();
	s.end_ns = s.begin_ns + v[1] * NS_PER_S;
	s.warm_ns = s.begin_ns + v[2] * NS_PER_S;
	s.max = (unsigned)v[3];
	s.timeout_ns = v[4] * NS_PER_MS;
	while (s.n_crowds < CLASSES_MAX && fgets(text, sizeof(text), stdin)) {
		text[strcspn(text, "\n")] = 0;
		read_crowd(&s, text);
	}
	(void)uv_timer_init(&s.loop, &s.tick);
	s.tick.data = &s;
	(void)uv_timer_start(&s.tick, on_tick, 1, 1);
	(void)uv_run(&s.loop, UV_RUN_DEFAULT);
	for (unsigned i = 0; i < s.n_crowds; i++)
		say(&s.crowds[i], (unsigned)v[1]);
	return 0;
}
