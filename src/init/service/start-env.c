/* SPDX-License-Identifier: Apache-2.0 */
#include "init/service/start-env.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int start_env_open(void)
{
	auto_close int fd = memfd_create("start-env", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)START_ENV_BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -errno;
	return cay_take_fd(&fd);
}

/* Cut the next word off; false at the end, also of one that was cut. */
static bool start_env_next(struct slice *rest, struct slice *ret)
{
	const char *end = rest->n ? memchr(rest->p, 0, rest->n) : NULL;

	if (!end)
		return false;
	*ret = (struct slice){ rest->p, (size_t)(end - rest->p) };
	rest->p = end + 1;
	rest->n -= ret->n + 1;
	return true;
}

static bool start_env_is_of_shell(struct slice name)
{
	static const char *const own[] = { "_", "PWD", "OLDPWD", "SHLVL" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (slice_eq(name, slice_of(own[i])))
			return true;
	return false;
}

static bool start_env_name_is_valid(struct slice name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alnum(name.p[i]) && name.p[i] != '_')
			return false;
	return name.n && !ascii_is_digit(name.p[0]) && !start_env_is_of_shell(name);
}

static bool start_env_has(struct slice words, struct slice word)
{
	struct slice w;

	while (start_env_next(&words, &w))
		if (slice_eq(w, word))
			return true;
	return false;
}

static int start_env_set(struct field_map *env, struct arena *arena, struct slice name,
			 struct slice value)
{
	size_t i = 0;

	while (i < env->n && !slice_eq(slice_of(env->keys[i]), name))
		i++;
	if (i == START_ENV_MAX)
		return -ENOMEM;
	if (i == env->n)
		env->keys[i] = arena_strndup(arena, name.p, name.n);
	env->values[i] = arena_strndup(arena, value.p, value.n);
	if (!env->keys[i] || !env->values[i])
		return -ENOMEM;
	env->n += i == env->n;
	return 0;
}

/* With room for START_ENV_MAX. */
static int start_env_copy(const struct field_map *from, struct arena *arena, struct field_map *ret)
{
	ret->keys = arena_alloc(arena, START_ENV_MAX, sizeof(*ret->keys));
	ret->values = arena_alloc(arena, START_ENV_MAX, sizeof(*ret->values));
	if (!ret->keys || !ret->values || from->n > START_ENV_MAX)
		return -ENOMEM;
	for (; ret->n < from->n; ret->n++) {
		ret->keys[ret->n] = from->keys[ret->n];
		ret->values[ret->n] = from->values[ret->n];
	}
	return 0;
}

int start_env_merge(struct slice said, struct arena *arena, struct field_map *env)
{
	struct slice before = said, after = said, w = {};
	struct field_map now = {};
	bool changed = false;
	int r = 0;

	while (!slice_eq(w, SLICE("=")))
		if (!start_env_next(&after, &w))
			return 0; /* it ended early */
	before.n = (size_t)(w.p - before.p);
	while (r >= 0 && start_env_next(&after, &w)) {
		struct slice value = w, name = slice_cut(&value, '=');

		if (!value.p || !start_env_name_is_valid(name) || start_env_has(before, w))
			continue;
		if (!changed)
			r = start_env_copy(env, arena, &now);
		changed = true;
		if (r >= 0)
			r = start_env_set(&now, arena, name, value);
	}
	if (r >= 0 && changed)
		*env = now;
	return r;
}
