/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/more.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/mem.h"
#include "json/json_text.h"
#include "tests/sim/burst.h"
#include "tests/sim/daemon.h"
#include "tests/sim/flaky_store.h"
#include "tests/sim/user.h"

/* Not those of tests/sim/tests.cmake. */
#define SEEDS	       3
#define SEED	       0
#define TAKEOVER_SEEDS 5
#define TAKEOVER_SEED  2

#define MEAN_GAP_NS (10 * NS_PER_S) /* between two of a kind */
#define LOOK_NS	    (100 * NS_PER_MS) /* at the spool, for an upload */
#define LOOKS_MAX   200
#define CHUNK_BYTES (1 << 20) /* an upload that has more than one is spooled in a file */

static void begin_partial(void);
static void begin_requests(void);
static void begin_damage(void);

static struct kind {
	void (*begin)(void);
	const char *name;
	uint64_t drawn; /* in all seeds so far */
} kinds[] = {
	{ begin_partial, "partial host, then retry", 0 },
	{ begin_requests, "requests at once", 0 },
	{ begin_damage, "damaged upload", 0 },
};

static struct {
	struct more_env env;
	struct rng rng;
	bool is_on;
	int64_t until_ns;
	struct sim_event next[ARRAY_SIZE(kinds)];
	struct sim_host *spoilt, *lost; /* of the capture that was asked for last */
	struct sim_host *big; /* uploads the file that is waited for */
	struct sim_event look;
	int looks;
} more;

bool more_is_up(const struct sim_host *h)
{
	return h->alive && !h->asleep && !daemon_is_busy(h) && h->paused_until_ns <= sim.now_ns &&
	       h->cut_until_ns <= sim.now_ns;
}

static struct sim_host *any_agent(void)
{
	return sim.hosts[rng_range(&more.rng, 1, (int64_t)sim.n_hosts - 1)];
}

static void mark(struct sim_host *h, enum sim_mark what, const char *session)
{
	h->mark = what;
	snprintf(h->marked, sizeof(h->marked), "%s", session);
}

static json_t *body_of(const char *hosts, int64_t duration_ns, bool only_ring)
{
	json_t *body = json_object();

	json_put_text(body, "hosts", hosts);
	json_put_int(body, "duration_ns", duration_ns);
	if (only_ring)
		json_put(body, "tracers", json_pack("[s]", "sim"));
	return body;
}

/* ---- a partial host, a lost one, and a retry ---- */

static void on_partial_accepted(struct request *w)
{
	mark(more.spoilt, SIM_MARK_SPOILT, w->session);
	if (more_is_up(more.lost))
		more.env.kill(more.lost, rng_scale(&more.rng, NS_PER_S, 10 * NS_PER_S));
	user_retry_when_over(w, 2);
}

/* The window is long enough for the answer to be there before its end. */
static void begin_partial(void)
{
	more.spoilt = any_agent();
	more.lost = any_agent();
	if (more.spoilt != more.lost && more_is_up(more.spoilt) && more_is_up(more.lost))
		user_post(body_of("all", rng_range(&more.rng, 500, 2000) * NS_PER_MS, true),
			  on_partial_accepted);
}

/* ---- requests at once ---- */

/* By chance one that matters to the agents, to the profilers, or to both. */
static void put_setting(json_t *settings, int which)
{
	switch (which) {
	case 0:
		json_put_int(settings, "sim.depth", rng_range(&more.rng, SIM_DEPTH + 1, 99));
		break;
	case 1:
		json_put_int(settings, "python_tracer_level", 1);
		break;
	case 2:
		json_put_int(settings, "host_tracer_level", 3);
		break;
	case 3:
		json_put_bool(settings, "include_dataset_ops", false);
		break;
	case 4:
		json_put_text(settings, "device_type", "GPU");
		break;
	default:
		json_put_text(settings, "advanced.mode", "other");
	}
}

/* Three callers, the first and the last of which want the same; a setting that all have may have another value. */
static void begin_requests(void)
{
	int64_t duration_ns = rng_scale(&more.rng, NS_PER_MS, 500 * NS_PER_MS);
	bool only_ring = rng_chance(&more.rng, 0.5);
	int which = (int)rng_range(&more.rng, 0, 5);
	json_t *settings[2] = { json_object(), json_object() };

	if (rng_chance(&more.rng, 0.5)) {
		json_put_int(settings[0], "sim.depth", SIM_DEPTH + 1);
		json_put_int(settings[1], "sim.depth", SIM_DEPTH + 1);
	}
	put_setting(settings[1], which);
	for (int i = 0; i < 3; i++) {
		json_t *body = body_of("all", duration_ns, only_ring);

		json_put(body, "settings", json_incref(settings[i % 2]));
		user_post(body, NULL);
	}
	json_decref(settings[0]);
	json_decref(settings[1]);
}

/* ---- an upload that is damaged on the aggregator's disk ---- */

/* The aggregator's file of the upload that is waited for, once more than a chunk is in it; the caller frees it. */
static char *find_upload(void)
{
	char *folder = daemon_folder("leader"), *spool = xasprintf("%s/spool", folder);
	char *start = xasprintf("%s.%s.", more.big->marked, more.big->name), *found = NULL;
	DIR *dir = opendir(spool);
	struct dirent *entry;

	while (dir && !found && (entry = readdir(dir))) {
		struct stat st;

		if (!strncmp(entry->d_name, start, strlen(start)) &&
		    !fstatat(dirfd(dir), entry->d_name, &st, 0) && st.st_size >= CHUNK_BYTES)
			found = xstrdup(entry->d_name);
	}
	if (dir)
		closedir(dir);
	free(start);
	free(spool);
	free(folder);
	return found;
}

/* As after a loss of power: the file has its length, and zeros, or other bytes, in it. */
static void damage(const char *name)
{
	char *folder = daemon_folder("leader"), *path = xasprintf("%s/spool/%s", folder, name);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t bytes[4096];
	off_t at = (off_t)rng_range(&more.rng, 0, CHUNK_BYTES - (int64_t)sizeof(bytes));
	bool is_lost = rng_chance(&more.rng, 0.5);

	if (fd >= 0 && pread(fd, bytes, sizeof(bytes), at) == sizeof(bytes)) {
		if (is_lost)
			memset(bytes, 0, sizeof(bytes));
		else
			bytes[rng_range(&more.rng, 0, sizeof(bytes) - 1)] ^= 1;
		if (pwrite(fd, bytes, sizeof(bytes), at) == sizeof(bytes))
			sim_note("damaged %s at %lld", name, (long long)at);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	free(folder);
}

static void on_look(void *arg)
{
	char *name = find_upload();

	if (name && more_is_up(sim.hosts[0])) {
		more.env.kill(sim.hosts[0], rng_scale(&more.rng, 20 * NS_PER_MS, 3 * NS_PER_S));
		damage(name);
	} else if (++more.looks < LOOKS_MAX) {
		sim_at(&more.look, sim.now_ns + LOOK_NS, on_look, arg);
	}
	free(name);
}

/* So slow that the upload takes a while. */
static void on_damage_accepted(struct request *w)
{
	mark(more.big, SIM_MARK_BIG, w->session);
	host_set_speed(more.big, rng_scale(&more.rng, 300000, 2000000));
	more.looks = 0;
	sim_at(&more.look, sim.now_ns + LOOK_NS, on_look, NULL);
}

static void begin_damage(void)
{
	sim_cancel(&more.look);
	more.big = any_agent();
	if (more_is_up(more.big))
		user_post(body_of(more.big->name, 300 * NS_PER_MS, true), on_damage_accepted);
}

/* ---- when ---- */

static void on_next(void *arg)
{
	struct kind *k = arg;

	if (sim.now_ns >= more.until_ns)
		return;
	sim_at(&more.next[k - kinds], sim.now_ns + rng_wait(&more.rng, MEAN_GAP_NS), on_next, k);
	k->begin();
	k->drawn++;
}

void more_new(uint64_t seed, bool is_takeover, const struct more_env *env)
{
	more.env = *env;
	more.is_on = is_takeover ? seed % TAKEOVER_SEEDS == TAKEOVER_SEED : seed % SEEDS == SEED;
	rng_seed(&more.rng, ~seed);
	sim_tracer_set_depth(more.is_on);
}

void more_start(int64_t until_ns)
{
	more.until_ns = until_ns;
	for (size_t i = 0; more.is_on && i < ARRAY_SIZE(kinds); i++)
		sim_at(&more.next[i], rng_scale(&more.rng, NS_PER_S, MEAN_GAP_NS), on_next,
		       &kinds[i]);
}

void more_stop(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		sim_cancel(&more.next[i]);
	sim_cancel(&more.look);
	for (size_t i = 0; i < sim.n_hosts; i++)
		sim.hosts[i]->mark = SIM_MARK_NONE;
	more.until_ns = 0;
}

void more_print_drawn(void)
{
	const char *before = "besides: ";

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!kinds[i].drawn)
			continue;
		printf("%s%s %" PRIu64, before, kinds[i].name, kinds[i].drawn);
		before = ", ";
	}
	if (*before == ',')
		printf("\n");
}
