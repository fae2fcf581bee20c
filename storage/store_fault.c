/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/store_fault.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "storage/kinds.h"

#define RULES_MAX      64
#define RULES_FILE_MAX 65536
/* how often a hanging call checks whether its rule is still there */
#define RECHECK_NS (20 * NS_PER_MS)

enum call {
	CALL_PUT = 1,
	CALL_GET = 2,
	CALL_STAT = 4,
	CALL_LIST = 8,
	CALL_REMOVE = 16,
	CALL_OPEN = 32,
	CALL_WRITE = CALL_PUT | CALL_REMOVE,
	CALL_ALL = 63,
};

static const struct call_name {
	const char *name;
	unsigned int calls;
} call_names[] = {
	{ "put", CALL_PUT },	 { "get", CALL_GET },	    { "stat", CALL_STAT },
	{ "list", CALL_LIST },	 { "remove", CALL_REMOVE }, { "open", CALL_OPEN },
	{ "write", CALL_WRITE }, { "*", CALL_ALL },
};

enum action {
	ACT_NONE,
	ACT_FAIL,
	ACT_FULL,
	ACT_MISSING,
	ACT_LOSE,
	ACT_DELAY,
	ACT_HANG,
	ACT_CRASH,
	ACT_CRASH_AFTER,
};

static const struct action_name {
	const char *name;
	enum action action;
} action_names[] = {
	{ "fail", ACT_FAIL },	    { "full", ACT_FULL },
	{ "missing", ACT_MISSING }, { "lose", ACT_LOSE },
	{ "delay", ACT_DELAY },	    { "hang", ACT_HANG },
	{ "crash", ACT_CRASH },	    { "crash-after", ACT_CRASH_AFTER },
};

struct rule {
	unsigned int calls;
	char key[256]; /* pattern */
	enum action action;
	int64_t delay_ns;
	uint64_t skip, times; /* times: 0 = any number */
	uint64_t seen;
};

struct store_fault {
	struct store base;
	struct store *inner;
	struct store_fault_env env;
	char *path; /* of the rules; or NULL */
	pthread_mutex_t lock; /* of all below */
	struct timespec changed; /* of the rules' file, when it was last read */
	off_t file_size;
	uint64_t generation; /* of the rules */
	struct rule rules[RULES_MAX];
	size_t n_rules;
	uint64_t n_calls, n_writes;
};

static struct store_fault *to_fault(struct store *s)
{
	assert(s->ops == &store_fault_ops);
	return (struct store_fault *)s;
}

/* ---- rules ---- */

static int parse_calls(const char *text, unsigned int *calls)
{
	*calls = 0;
	while (*text) {
		size_t len = strcspn(text, ",");
		size_t i = 0;

		while (i < ARRAY_SIZE(call_names) && (strlen(call_names[i].name) != len ||
						      strncmp(call_names[i].name, text, len)))
			i++;
		if (i == ARRAY_SIZE(call_names))
			return -1;
		*calls |= call_names[i].calls;
		text += len + (text[len] == ',');
	}
	return *calls ? 0 : -1;
}

static int parse_action(const char *text, struct rule *r)
{
	const char *value = strchr(text, '=');
	size_t len = value ? (size_t)(value - text) : strlen(text);

	for (size_t i = 0; i < ARRAY_SIZE(action_names); i++) {
		if (strlen(action_names[i].name) != len || strncmp(action_names[i].name, text, len))
			continue;
		r->action = action_names[i].action;
		if ((r->action == ACT_DELAY) != (value != NULL))
			return -1;
		r->delay_ns = value ? (int64_t)(strtod(value + 1, NULL) * 1e9) : 0;
		return 0;
	}
	return -1;
}

static int parse_count(const char *text, struct rule *r)
{
	char *end;
	uint64_t *out = !strncmp(text, "skip=", 5)    ? &r->skip
			: !strncmp(text, "times=", 6) ? &r->times
						      : NULL;

	if (!out)
		return -1;
	*out = strtoull(strchr(text, '=') + 1, &end, 10);
	return *end ? -1 : 0;
}

static int parse_rule(char *line, struct rule *r)
{
	char *save, *word = strtok_r(line, " \t", &save);

	memset(r, 0, sizeof(*r));
	if (!word || parse_calls(word, &r->calls))
		return -1;
	word = strtok_r(NULL, " \t", &save);
	if (!word || strlen(word) >= sizeof(r->key))
		return -1;
	memcpy(r->key, word, strlen(word) + 1);
	word = strtok_r(NULL, " \t", &save);
	if (!word || parse_action(word, r))
		return -1;
	while ((word = strtok_r(NULL, " \t", &save)))
		if (parse_count(word, r))
			return -1;
	return 0;
}

static int parse_rules(const char *text, struct rule rules[RULES_MAX], size_t *n, struct err *e)
{
	char *copy = xstrdup(text), *save, *line;
	int rc = 0;

	*n = 0;
	for (line = strtok_r(copy, "\n", &save); line && !rc; line = strtok_r(NULL, "\n", &save)) {
		line[strcspn(line, "#")] = '\0';
		if (!line[strspn(line, " \t")])
			continue;
		if (*n == RULES_MAX || parse_rule(line, &rules[*n]))
			rc = err_set(e, ERR_INVALID, "bad or too many fault rules near \"%.80s\"",
				     line);
		else
			(*n)++;
	}
	free(copy);
	return rc;
}

int store_fault_set(struct store *store, const char *text, struct err *e)
{
	struct store_fault *s = to_fault(store);
	struct rule rules[RULES_MAX];
	size_t n;
	int rc = parse_rules(text, rules, &n, e);

	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	memcpy(s->rules, rules, n * sizeof(rules[0]));
	s->n_rules = n;
	s->generation++;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static void clear_rules(struct store_fault *s)
{
	pthread_mutex_lock(&s->lock);
	s->n_rules = 0;
	s->generation++;
	pthread_mutex_unlock(&s->lock);
}

/* Reads the file if it has changed. If it is missing or malformed there are no rules. */
static void reload(struct store_fault *s)
{
	struct stat st = { 0 };
	char text[RULES_FILE_MAX + 1];
	ssize_t n = 0;
	struct err e;
	int fd;
	bool same;

	if (!s->path)
		return;
	fd = open(s->path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st))
		memset(&st, 0, sizeof(st));
	pthread_mutex_lock(&s->lock);
	same = st.st_mtim.tv_sec == s->changed.tv_sec && st.st_mtim.tv_nsec == s->changed.tv_nsec &&
	       st.st_size == s->file_size;
	s->changed = st.st_mtim;
	s->file_size = st.st_size;
	pthread_mutex_unlock(&s->lock);
	if (!same) {
		if (fd >= 0)
			n = read(fd, text, RULES_FILE_MAX);
		text[n > 0 ? n : 0] = '\0';
		if (store_fault_set(&s->base, text, &e)) {
			log_error("STORE-FAULT", "rules=none reason=\"%s\"", e.msg);
			clear_rules(s);
		}
	}
	if (fd >= 0)
		close(fd);
}

/* Finds the rule for this call and counts the call; ACT_NONE if no rule matches. `*generation` is the rules'
 * generation. */
static struct rule rule_for(struct store_fault *s, enum call call, const char *key,
			    uint64_t *generation)
{
	struct rule found = { .action = ACT_NONE };

	pthread_mutex_lock(&s->lock);
	*generation = s->generation;
	s->n_calls++;
	s->n_writes += (call & CALL_WRITE) != 0;
	for (size_t i = 0; i < s->n_rules && !found.action; i++) {
		struct rule *r = &s->rules[i];
		uint64_t nth;

		if (!(r->calls & call) || fnmatch(r->key, key, 0))
			continue;
		nth = r->seen++;
		if (nth >= r->skip && (!r->times || nth < r->skip + r->times))
			found = *r;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

static bool rules_changed(struct store_fault *s, uint64_t generation)
{
	bool changed;

	reload(s);
	pthread_mutex_lock(&s->lock);
	changed = s->generation != generation;
	pthread_mutex_unlock(&s->lock);
	return changed;
}

/* ---- what happens to a call ---- */

static void wait_until(struct store_fault *s, int64_t until_mono_ns)
{
	struct timespec at;
	pthread_mutex_t unused = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never;
	pthread_condattr_t attr;

	if (s->env.wait) {
		s->env.wait(s->env.arg, until_mono_ns);
		return;
	}
	at = (struct timespec){ until_mono_ns / NS_PER_S, until_mono_ns % NS_PER_S };
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&never, &attr);
	pthread_mutex_lock(&unused);
	pthread_cond_timedwait(&never, &unused, &at);
	pthread_mutex_unlock(&unused);
	pthread_cond_destroy(&never);
	pthread_condattr_destroy(&attr);
}

static int fail_late(struct err *e)
{
	return err_set(e, ERR_TIMEOUT, "fault: the store did not answer in time");
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static int delay(struct store_fault *s, int64_t for_ns, int64_t deadline_mono_ns, struct err *e)
{
	int64_t until_ns = now_mono_ns() + for_ns;

	while (now_mono_ns() < earlier(until_ns, deadline_mono_ns))
		wait_until(s, earlier(until_ns, deadline_mono_ns));
	return until_ns > deadline_mono_ns ? fail_late(e) : 0;
}

static int hang(struct store_fault *s, uint64_t generation, int64_t deadline_mono_ns, struct err *e)
{
	while (!rules_changed(s, generation)) {
		int64_t now_ns = now_mono_ns();

		if (now_ns >= deadline_mono_ns)
			return fail_late(e);
		wait_until(s, earlier(now_ns + RECHECK_NS, deadline_mono_ns));
	}
	return 0;
}

static int crash(struct store_fault *s, struct err *e)
{
	if (s->env.crash)
		s->env.crash(s->env.arg);
	else
		raise(SIGKILL);
	return err_set(e, ERR_CLOSED, "fault: the process has crashed");
}

/* Does what the rule says to do before the call. Returns 0 if the call goes on; then `*after` is what end()
 * has to do. */
static int begin(struct store_fault *s, enum call call, const char *key, int64_t deadline_mono_ns,
		 enum action *after, struct err *e)
{
	uint64_t generation;
	struct rule r;

	reload(s);
	r = rule_for(s, call, key, &generation);
	*after = r.action;
	switch (r.action) {
	case ACT_FAIL:
		return err_set(e, ERR_IO, "fault: failed by a rule");
	case ACT_FULL:
		return err_set(e, ERR_FULL, "fault: no space left, by a rule");
	case ACT_MISSING:
		return call == CALL_LIST ? 0
					 : err_set(e, ERR_NOT_FOUND, "fault: not found, by a rule");
	case ACT_DELAY:
		return delay(s, r.delay_ns, deadline_mono_ns, e);
	case ACT_HANG:
		return hang(s, generation, deadline_mono_ns, e);
	case ACT_CRASH:
		return crash(s, e);
	default:
		return 0;
	}
}

/* What the rule does after the call; `rc` is the result of the inner store. */
static int end(struct store_fault *s, enum action after, int rc, struct err *e)
{
	if (after == ACT_LOSE)
		return err_set(e, ERR_TIMEOUT, "fault: the answer was lost");
	return after == ACT_CRASH_AFTER ? crash(s, e) : rc;
}

/* ---- the table ---- */

static int fault_put(struct store *store, const struct store_put *put, struct store_stat *out,
		     struct err *e)
{
	struct store_fault *s = to_fault(store);
	enum action after;
	int rc = begin(s, CALL_PUT, put->key, put->deadline_mono_ns, &after, e);

	return rc ? rc : end(s, after, s->inner->ops->put(s->inner, put, out, e), e);
}

static int fault_get(struct store *store, const struct store_get *get, struct store_stat *out,
		     struct err *e)
{
	struct store_fault *s = to_fault(store);
	enum action after;
	int rc = begin(s, CALL_GET, get->key, get->deadline_mono_ns, &after, e);

	return rc ? rc : end(s, after, s->inner->ops->get(s->inner, get, out, e), e);
}

static int fault_stat(struct store *store, const char *key, int64_t deadline_mono_ns,
		      struct store_stat *out, struct err *e)
{
	struct store_fault *s = to_fault(store);
	enum action after;
	int rc = begin(s, CALL_STAT, key, deadline_mono_ns, &after, e);

	return rc ? rc
		  : end(s, after, s->inner->ops->stat(s->inner, key, deadline_mono_ns, out, e), e);
}

static int fault_list(struct store *store, const struct store_list *list, struct err *e)
{
	struct store_fault *s = to_fault(store);
	enum action after;
	int rc = begin(s, CALL_LIST, list->prefix, list->deadline_mono_ns, &after, e);

	if (after == ACT_MISSING)
		return 0;
	return rc ? rc : end(s, after, s->inner->ops->list(s->inner, list, e), e);
}

static int fault_remove(struct store *store, const char *key, int64_t deadline_mono_ns,
			struct err *e)
{
	struct store_fault *s = to_fault(store);
	enum action after;
	int rc = begin(s, CALL_REMOVE, key, deadline_mono_ns, &after, e);

	return rc ? rc
		  : end(s, after, s->inner->ops->remove(s->inner, key, deadline_mono_ns, e), e);
}

static int fault_open_fd(struct store *store, const char *key, int64_t deadline_mono_ns, int *fd,
			 uint64_t *size, struct err *e)
{
	struct store_fault *s = to_fault(store);
	enum action after;
	int rc = begin(s, CALL_OPEN, key, deadline_mono_ns, &after, e);

	if (!rc)
		rc = store_open_fd(s->inner, key, deadline_mono_ns, fd, size, e);
	if (!rc && after == ACT_LOSE)
		close(*fd);
	return rc ? rc : end(s, after, 0, e);
}

/* What is sent by a grant does not come through here. */
static int fault_grant(struct store *store, const struct store_grant_request *req,
		       struct store_grant *out, struct err *e)
{
	struct store_fault *s = to_fault(store);

	return s->inner->ops->grant(s->inner, req, out, e);
}

static int fault_revoke(struct store *store, const char *url, int64_t deadline_mono_ns,
			struct err *e)
{
	return store_revoke(to_fault(store)->inner, url, deadline_mono_ns, e);
}

static void fault_free(struct store *store)
{
	struct store_fault *s = to_fault(store);

	store_free(s->inner);
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

struct store *store_fault_wrap(struct store *inner, const struct store_fault_env *env)
{
	struct store_fault *s = xcalloc(1, sizeof(*s));

	s->base.ops = &store_fault_ops;
	s->base.directory = inner->directory;
	s->base.grants = inner->grants;
	s->base.revokes = inner->revokes;
	s->base.http = inner->http;
	s->inner = inner;
	if (env)
		s->env = *env;
	pthread_mutex_init(&s->lock, NULL);
	return &s->base;
}

static int fault_open(struct store **out, const char *rest, struct err *e)
{
	const char *inner_url = strchr(rest, '!');
	struct store *inner;
	int rc;

	if (!inner_url || inner_url == rest)
		return err_set(e, ERR_INVALID, "needs fault://FILE!URL");
	rc = store_open(&inner, inner_url + 1, e);
	if (rc)
		return rc;
	*out = store_fault_wrap(inner, NULL);
	to_fault(*out)->path = xstrndup(rest, (size_t)(inner_url - rest));
	return 0;
}

uint64_t store_fault_calls(struct store *store)
{
	struct store_fault *s = to_fault(store);
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->n_calls;
	pthread_mutex_unlock(&s->lock);
	return n;
}

uint64_t store_fault_writes(struct store *store)
{
	struct store_fault *s = to_fault(store);
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->n_writes;
	pthread_mutex_unlock(&s->lock);
	return n;
}

const struct store_ops store_fault_ops = {
	.scheme = "fault",
	.open = fault_open,
	.put = fault_put,
	.get = fault_get,
	.stat = fault_stat,
	.list = fault_list,
	.remove = fault_remove,
	.open_fd = fault_open_fd,
	.grant = fault_grant,
	.revoke = fault_revoke,
	.free = fault_free,
};
