/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_BENCH_CLIENT_H
#define CAY_TESTS_BENCH_CLIENT_H
/* client - what its modes share */
#include "base/jsonw.h"
#include "call.h"

#define SAMPLES_MAX 20000
#define NAME_MAX_LEN 128 /* of a container, a sandbox or an exec */

struct job {
	const char *where, *image; /* image: the second argument, a target for get */
	size_t n;
	struct jw *w;
};

uint64_t now_ns(void);
void write_times(struct jw *w, const char *key, const uint64_t *ns, size_t n);
/* A string member as a name that may stand in a path. */
[[nodiscard]] int take_name(const json_t *j, const char *key, char ret[static NAME_MAX_LEN],
			    struct cay_err *err);

/* A connection to the edge at job->where; job->image is a file with the key. */
[[nodiscard]] int dial_edge(const struct job *job, char key[static NAME_MAX_LEN],
			    struct cay_err *err);

/* client-pool.c */
[[nodiscard]] int run_claim(const struct job *job, struct cay_err *err);
[[nodiscard]] int run_burst(const struct job *job, struct cay_err *err);

/* client-file.c */
[[nodiscard]] int run_edit(const struct job *job, struct cay_err *err);

/* client-docker.c */
[[nodiscard]] int run_docker(const struct job *job, struct cay_err *err);
#endif
