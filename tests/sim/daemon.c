/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "aggregator/time/session_clock.h"
#include "base/conf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "storage/store.h"
#include "tests/lib/temp_dir.h"
#include "tests/sim/daemon_impl.h"
#include "tests/sim/flaky_store.h"
#include "tests/sim/session_time.h"

/* The same in every run, wherever the folder is: paths are part of what happens. */
#define ROOT "/proc/self/cwd"

#define DAEMON_SHARED_STORE "store"
#define CLOCK_FILE	    "session-clock.json"

struct sim_daemon {
	struct sim_host *host;
	const struct daemon_kind *kind;
	void *self; /* NULL = down */
	struct loop *loop;
	unsigned int life; /* 1, 2, ...: each has its own folder */
	bool busy; /* it is being started or stopped */
	bool dying; /* killed meanwhile: what it is doing is its clean-up */
	struct sim_event limit; /* of an orderly stop */
};

static struct sim_daemon *daemons; /* of all hosts; behind them, of the standby */
static size_t n_daemons;
static struct daemon_opts opts;
static const char *root;

/* ---- folders ---- */

static void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

void daemon_root_new(void)
{
	root = temp_dir_in(access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", "tutti-sim");
	if (chdir(root))
		give_up(root);
}

static void copy_file(const char *from, const char *to)
{
	char bytes[1 << 16];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n = 0;

	while (in >= 0 && out >= 0 && (n = read(in, bytes, sizeof(bytes))) > 0) {
		if (write(out, bytes, (size_t)n) != n)
			give_up(to);
	}
	if (in < 0 || out < 0 || n < 0)
		give_up(from);
	close(in);
	close(out);
}

/* Copies a tree to `to`, or removes it if that is NULL. In order of names: that of a folder is not ours. */
static void walk(const char *from, const char *to)
{
	struct dirent **names;
	int n = scandir(from, &names, NULL, alphasort);

	if (n < 0 || (to && mkdir(to, 0700)))
		give_up(from);
	for (int i = 0; i < n; i++) {
		char *in = xasprintf("%s/%s", from, names[i]->d_name);
		char *out = to ? xasprintf("%s/%s", to, names[i]->d_name) : NULL;
		bool is_entry = strcmp(names[i]->d_name, ".") && strcmp(names[i]->d_name, "..");

		if (is_entry && names[i]->d_type == DT_DIR)
			walk(in, out);
		else if (is_entry && to)
			copy_file(in, out);
		else if (is_entry)
			unlink(in);
		free(out);
		free(in);
		free(names[i]);
	}
	free(names);
	if (!to && rmdir(from))
		give_up(from);
}

void daemon_root_free(void)
{
	if (chdir("/"))
		give_up("/");
	temp_dir_remove(root);
}

static char *folder_of(const struct sim_daemon *d, const char *base, unsigned int life)
{
	return xasprintf("%s/%s.%u", base, d->host->name, life);
}

/* What this life leaves to the next one. */
static void bequeath(struct sim_daemon *d)
{
	char *from = folder_of(d, ".", d->life), *to = folder_of(d, ".", d->life + 1);

	walk(from, to);
	free(from);
	free(to);
}

static void forget(const struct sim_daemon *d, unsigned int life)
{
	char *path = folder_of(d, ".", life);

	walk(path, NULL);
	free(path);
}

/* ---- life and death ---- */

static struct sim_daemon *daemon_of(const struct sim_host *h)
{
	size_t i = 0;

	while (daemons[i].host != h)
		i++;
	return &daemons[i];
}

static void end(struct sim_daemon *d)
{
	struct sim_host *was = sim.host;

	sim.host = d->host;
	d->kind->stop(d->self);
	loop_free(d->loop);
	d->kind->free(d->self);
	d->self = NULL;
	d->host->alive = false;
	sim.host = was;
}

/* From here on no peer receives from it, and its successor will have its files as they are. */
static void die(struct sim_daemon *d, bool vanish)
{
	struct sim_host *h = d->host;

	h->cleaning_up = true;
	h->cleanup_ns = 0;
	h->vanished = vanish;
	d->dying = true;
	wire_host_gone(h);
	http_host_gone(h);
	bequeath(d);
}

/* It has been cleaned up. */
static void bury(struct sim_daemon *d)
{
	forget(d, d->life++);
	d->dying = false;
	d->host->cleaning_up = false;
	d->host->paused_until_ns = d->host->busy_until_ns = 0;
}

void daemon_start(struct sim_host *h)
{
	struct sim_daemon *d = daemon_of(h);
	char *dir = folder_of(d, ROOT, d->life);
	struct err e;

	h->alive = true;
	h->vanished = false;
	if (h->well_since_ns < sim.now_ns)
		h->well_since_ns = sim.now_ns;
	sim_note("start %s", h->name);
	sim.host = h;
	d->busy = true;
	if (loop_new(&d->loop, d->kind->workers, &e) ||
	    d->kind->start(&d->self, dir, &opts, d->loop, &e))
		sim_fail("%s does not start: %s", h->name, e.msg);
	d->busy = false;
	sim.host = NULL;
	free(dir);
	if (d->dying) {
		end(d);
		bury(d);
	}
}

static void on_stop_limit(void *arg)
{
	struct sim_daemon *d = arg;

	sim_note("%s takes too long to stop", d->host->name);
	die(d, false);
}

void daemon_stop(struct sim_host *h)
{
	struct sim_daemon *d = daemon_of(h);

	sim_note("stop %s", h->name);
	d->busy = true;
	if (d->kind->stop_limit_ns)
		sim_at(&d->limit, sim.now_ns + d->kind->stop_limit_ns, on_stop_limit, d);
	end(d);
	sim_cancel(&d->limit);
	if (d->dying) {
		bury(d);
	} else {
		http_host_gone(h);
		wire_host_gone(h);
	}
	d->busy = false;
	sim_note("%s has stopped", h->name);
}

/* If it is being started or stopped, those who do that clean up. */
void daemon_kill(struct sim_host *h, bool vanish)
{
	struct sim_daemon *d = daemon_of(h);

	if (d->dying)
		return;
	sim_note("kill %s%s", h->name, vanish ? " without a word" : "");
	die(d, vanish);
	if (d->busy)
		return;
	end(d);
	bury(d);
}

bool daemon_is_busy(const struct sim_host *h)
{
	return daemon_of(h)->busy;
}

char *daemon_folder(const char *host)
{
	const struct sim_daemon *d = daemon_of(host_find(host));

	return folder_of(d, ".", d->life);
}

/* ---- all of them ---- */

void daemons_new(const struct daemon_opts *options)
{
	opts = *options;
	n_daemons = sim.n_hosts + (sim.standby ? 1 : 0);
	daemons = xcalloc(n_daemons, sizeof(*daemons));
	for (size_t i = 0; i < n_daemons; i++) {
		struct sim_daemon *d = &daemons[i];
		bool is_agent = i && i < sim.n_hosts;
		char *dir;

		d->host = i < sim.n_hosts ? sim.hosts[i] : sim.standby;
		d->kind = is_agent ? &agent_kind : &aggregator_kind;
		d->life = 1;
		dir = folder_of(d, ".", 1);
		if (mkdir(dir, 0700))
			give_up(dir);
		free(dir);
	}
}

void daemons_free(void)
{
	for (size_t i = 0; i < n_daemons; i++)
		forget(&daemons[i], daemons[i].life);
	if (opts.n_aggregators > 1)
		walk(DAEMON_SHARED_STORE, NULL);
	free(daemons);
	daemons = NULL;
}

/* ---- the aggregator's ---- */

struct aggregator *the_aggregator(void)
{
	return sim.hosts[0]->alive ? daemon_of(sim.hosts[0])->self : NULL;
}

char *daemon_store_url(const char *dir)
{
	return opts.n_aggregators > 1 ? xasprintf("file://%s/%s", ROOT, DAEMON_SHARED_STORE)
				      : xasprintf("file://%s/store", dir);
}

struct store *the_store(void)
{
	const struct sim_daemon *d = daemon_of(sim.hosts[0]);
	char *dir = folder_of(d, ROOT, d->life), *url = daemon_store_url(dir);
	struct sim_host *was = sim.host;
	struct store *s = NULL;
	struct err e;

	sim.host = d->host;
	if (store_open_whole(&s, url, &e))
		sim_fail("the store cannot be read: %s", e.msg);
	sim.host = was;
	free(url);
	free(dir);
	return s;
}

/* What a follower has measured when it begins to lead: its last probe was answered before the leader's end. */
static struct session_clock_seen measure(const struct sim_host *from, int64_t shift_ns,
					 const struct sim_host *to, int64_t after_ns)
{
	int64_t heard_ns = sim.now_ns - rng_range(&sim.rng, 0, NS_PER_S);
	int64_t width_ns = rng_scale(&sim.rng, 10 * NS_PER_US, 10 * NS_PER_MS);
	int64_t then_ns = host_raw_ns(from, heard_ns) + shift_ns - host_raw_ns(to, heard_ns);
	int64_t lo_ns = then_ns - rng_range(&sim.rng, 0, width_ns);
	int64_t at_ns = sim.now_ns + after_ns;
	int64_t drift_ns = (int64_t)(SESSION_CLOCK_DRIFT * (double)(at_ns - heard_ns));

	return (struct session_clock_seen){ host_raw_ns(to, at_ns), lo_ns - drift_ns,
					    lo_ns + width_ns + drift_ns,
					    host_raw_ns(from, heard_ns) + shift_ns };
}

/* As aggregator/replica.c does. */
static void go_on(const char *former, const struct sim_host *from, const char *path,
		  const struct sim_host *to, int64_t after_ns)
{
	json_t *doc = json_load_file(former, 0, NULL), *next;
	int64_t shift_ns = json_get_int(doc, "shift_ns");
	struct session_clock_seen seen = measure(from, shift_ns, to, after_ns);
	struct sim_host *was = sim.host;

	sim.host = sim.standby;
	next = session_clock_go_on(doc, &seen);
	sim.host = was;
	session_time_goes_on(shift_ns, from, json_get_int(next, "shift_ns"), to);
	if (json_dump_file(next, path, JSON_COMPACT))
		give_up(path);
	json_decref(next);
	json_decref(doc);
}

/* As the record of the lease does (aggregator/replica.c). */
static void hand_clock_over(const struct sim_daemon *from, const struct sim_daemon *to,
			    bool measured, int64_t after_ns)
{
	char *old = folder_of(from, ".", from->life), *new = folder_of(to, ".", to->life);
	char *spool = xasprintf("%s/spool", new), *path = xasprintf("%s/%s", spool, CLOCK_FILE);
	char *former = xasprintf("%s/spool/%s", old, CLOCK_FILE);

	mkdir(spool, 0700);
	unlink(path);
	if (!access(former, R_OK) && measured)
		go_on(former, from->host, path, to->host, after_ns);
	else if (!access(former, R_OK))
		copy_file(former, path);
	free(former);
	free(path);
	free(spool);
	free(new);
	free(old);
}

void daemon_hand_over(bool measured, int64_t after_ns)
{
	struct sim_host *former = sim.hosts[0];

	http_host_gone(former);
	hand_clock_over(daemon_of(former), daemon_of(sim.standby), measured, after_ns);
	sim.hosts[0] = sim.standby;
	sim.standby = former;
	sim_note("%s takes over from %s", sim.hosts[0]->name, former->name);
}
