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

#include "base/conf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "storage/store.h"
#include "tests/lib/temp_dir.h"
#include "tests/sim/daemon_impl.h"

/* The same in every run, wherever the folder is: paths are part of what happens. */
#define ROOT "/proc/self/cwd"

struct sim_daemon {
	struct sim_host *host;
	const struct daemon_kind *kind;
	void *self; /* NULL = down */
	struct loop *loop;
	unsigned int life; /* 1, 2, ...: each has its own folder */
	bool busy;
};

static struct sim_daemon *daemons;
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

void daemon_start(struct sim_host *h)
{
	struct sim_daemon *d = daemon_of(h);
	char *dir = folder_of(d, ROOT, d->life);
	struct err e;

	h->alive = true;
	h->vanished = false;
	sim_note("start %s", h->name);
	sim.host = h;
	if (loop_new(&d->loop, 4, &e) || d->kind->start(&d->self, dir, &opts, d->loop, &e))
		sim_fail("%s does not start: %s", h->name, e.msg);
	sim.host = NULL;
	free(dir);
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

void daemon_stop(struct sim_host *h)
{
	struct sim_daemon *d = daemon_of(h);

	sim_note("stop %s", h->name);
	d->busy = true;
	end(d);
	http_host_gone(h);
	wire_host_gone(h);
	d->busy = false;
	sim_note("%s has stopped", h->name);
}

void daemon_kill(struct sim_host *h, bool vanish)
{
	struct sim_daemon *d = daemon_of(h);

	sim_note("kill %s%s", h->name, vanish ? " without a word" : "");
	h->cleaning_up = true;
	h->cleanup_ns = 0;
	h->vanished = vanish;
	wire_host_gone(h);
	http_host_gone(h);
	bequeath(d);
	end(d);
	forget(d, d->life++);
	h->cleaning_up = false;
	h->paused_until_ns = 0;
}

bool daemon_is_busy(const struct sim_host *h)
{
	return daemon_of(h)->busy;
}

/* ---- all of them ---- */

void daemons_new(const struct daemon_opts *options)
{
	opts = *options;
	daemons = xcalloc(sim.n_hosts, sizeof(*daemons));
	for (size_t i = 0; i < sim.n_hosts; i++) {
		struct sim_daemon *d = &daemons[i];
		char *dir;

		d->host = sim.hosts[i];
		d->kind = i ? &agent_kind : &aggregator_kind;
		d->life = 1;
		dir = folder_of(d, ".", 1);
		if (mkdir(dir, 0700))
			give_up(dir);
		free(dir);
	}
}

void daemons_free(void)
{
	for (size_t i = 0; i < sim.n_hosts; i++)
		forget(&daemons[i], daemons[i].life);
	free(daemons);
	daemons = NULL;
}

/* ---- the aggregator's ---- */

struct aggregator *the_aggregator(void)
{
	return sim.hosts[0]->alive ? daemons[0].self : NULL;
}

struct store *the_store(void)
{
	char *dir = folder_of(&daemons[0], ROOT, daemons[0].life);
	char *url = xasprintf("file://%s/store", dir);
	struct sim_host *was = sim.host;
	struct store *s = NULL;
	struct err e;

	sim.host = daemons[0].host;
	if (store_open(&s, url, &e))
		sim_fail("the store cannot be read: %s", e.msg);
	sim.host = was;
	free(url);
	free(dir);
	return s;
}
