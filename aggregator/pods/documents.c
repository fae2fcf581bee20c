/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of pods and jobs. A worker writes them from references to the pods, which never change. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/fleet/selector.h"
#include "aggregator/pods/pods_impl.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "json/json_text.h"

/* A pod of a document; the host's name is a copy, as hosts may end meanwhile. */
struct row {
	struct pod *pod;
	char *host; /* NULL = none */
	bool is_connected; /* the host's agent */
};

struct document {
	struct jobs *jobs;
	struct row *rows;
	size_t n;
	json_t *discovery;
	struct buf text;
	json_text_fn fn;
	void *arg;
	void (*write)(struct document *d);
};

/* How many pods there are is not said to those who may see only some. */
static json_t *discovery_json(const struct pods *p, const struct spaces *within)
{
	bool is_whole = !within || within->all;
	json_t *o = json_object();

	json_put_text(o, "state", pods_state_names[p->state]);
	json_put_text(o, "error", p->error.msg);
	json_put_int(o, "pods", is_whole ? (int64_t)p->table.n : 0);
	json_put_int(o, "bytes", is_whole ? (int64_t)p->table.bytes : 0);
	json_put_int(o, "left_out", is_whole ? (int64_t)p->table.left_out : 0);
	return o;
}

json_t *pod_json(const struct pod *p)
{
	json_t *o = json_object(), *containers = json_array();

	json_put_text(o, "pod", p->name);
	json_put_text(o, "namespace", p->space);
	json_put_text(o, "uid", p->uid);
	json_put_text(o, "node", p->node);
	json_put_text(o, "job", p->job);
	json_put_text(o, "job_kind", p->kind);
	json_put_text(o, "rank", p->rank);
	for (size_t i = 0; i < p->n_containers; i++) {
		json_t *c = json_object();

		json_put_text(c, "name", p->containers[i].name);
		json_put_text(c, "id", p->containers[i].id);
		json_put_int(c, "restarts", p->containers[i].restarts);
		json_array_append_new(containers, c);
	}
	json_put(o, "containers", containers);
	return o;
}

/* ---- pods ---- */

static void write_pods(struct document *d)
{
	buf_add_str(&d->text, "{\"discovery\":");
	json_append(&d->text, d->discovery, 0);
	buf_add_str(&d->text, ",\"pods\":[");
	for (size_t i = 0; i < d->n; i++) {
		json_t *o = pod_json(d->rows[i].pod);

		json_put_text(o, "phase", d->rows[i].pod->phase);
		json_put_text(o, "ip", d->rows[i].pod->ip);
		json_put_bool(o, "ending", d->rows[i].pod->is_ending);
		json_put_bool(o, "opted_out", d->rows[i].pod->opted_out);
		json_put_int(o, "profiler_port", d->rows[i].pod->profiler_port);
		json_put_text(o, "host", d->rows[i].host ? d->rows[i].host : "");
		json_put_bool(o, "connected", d->rows[i].is_connected);
		if (i)
			buf_add_str(&d->text, ",");
		json_write(&d->text, o, 0);
	}
	buf_add_str(&d->text, "]}");
}

/* ---- jobs ---- */

static int compare_rows_by_job(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->pod->space, y->pod->space);

	if (!order)
		order = strcmp(x->pod->job, y->pod->job);
	return order ? order : strcmp(x->pod->kind, y->pod->kind);
}

static bool is_same_job(const struct pod *a, const struct pod *b)
{
	return !strcmp(a->space, b->space) && !strcmp(a->job, b->job) && !strcmp(a->kind, b->kind);
}

/* The job of the rows from `at` on; returns the first row of the next one. */
static size_t write_job(struct document *d, size_t at)
{
	const struct pod *first = d->rows[at].pod;
	int64_t pods = 0, running = 0, connected = 0;
	json_t *o = json_object();

	for (; at < d->n && is_same_job(first, d->rows[at].pod); at++) {
		pods++;
		running += !strcmp(d->rows[at].pod->phase, "Running");
		connected += d->rows[at].is_connected;
	}
	json_put_text(o, "job", first->job);
	json_put_text(o, "job_kind", first->kind);
	json_put_text(o, "namespace", first->space);
	json_put_int(o, "pods", pods);
	json_put_int(o, "running", running);
	json_put_int(o, "connected", connected);
	json_write(&d->text, o, 0);
	return at;
}

static void write_jobs(struct document *d)
{
	bool is_first = true;

	sort_array(d->rows, d->n, sizeof(*d->rows), compare_rows_by_job);
	buf_add_str(&d->text, "{\"discovery\":");
	json_append(&d->text, d->discovery, 0);
	buf_add_str(&d->text, ",\"jobs\":[");
	for (size_t at = 0; at < d->n;) {
		if (!*d->rows[at].pod->job) {
			at++;
			continue;
		}
		if (!is_first)
			buf_add_str(&d->text, ",");
		is_first = false;
		at = write_job(d, at);
	}
	buf_add_str(&d->text, "]}");
}

/* ---- both ---- */

static void run_write(void *arg)
{
	struct document *d = arg;

	d->write(d);
}

static void on_written(void *arg)
{
	struct document *d = arg;

	d->fn(d->arg, &d->text);
	for (size_t i = 0; i < d->n; i++) {
		pod_unref(d->rows[i].pod);
		free(d->rows[i].host);
	}
	free(d->rows);
	json_decref(d->discovery);
	free(d);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->pod->space, y->pod->space);

	return order ? order : strcmp(x->pod->name, y->pod->name);
}

static void add_rows(struct document *d, const struct pods *p, const struct selector *s,
		     const struct spaces *within)
{
	struct node_index nodes;
	size_t n;
	struct pod **all = pod_table_all(&p->table, &n);

	node_index_build(&nodes, p->env.registry);
	d->rows = xcalloc(n + 1, sizeof(*d->rows));
	for (size_t i = 0; i < n; i++) {
		const struct node_entry *node;
		const struct host *h;

		if (within && !spaces_have(within, all[i]->space))
			continue;
		if (s && !selector_names_pod(s, all[i], &nodes))
			continue;
		node = node_index_find(&nodes, all[i]->node);
		h = node ? node->host : NULL;
		d->rows[d->n++] = (struct row){ .pod = pod_ref(all[i]),
						.host = h ? xstrdup(h->name) : NULL,
						.is_connected = h && h->control };
	}
	sort_array(d->rows, d->n, sizeof(*d->rows), compare_rows);
	node_index_release(&nodes);
	free(all);
}

static void make_text(struct pods *p, const struct selector *s, const struct spaces *within,
		      void (*write)(struct document *d), json_text_fn fn, void *arg)
{
	struct document *d = xcalloc(1, sizeof(*d));

	d->jobs = p->env.jobs;
	d->discovery = discovery_json(p, within);
	d->fn = fn;
	d->arg = arg;
	d->write = write;
	add_rows(d, p, s, within);
	jobs_work(d->jobs, run_write, on_written, d);
}

int pods_make_text(struct pods *p, const char *selector, const struct spaces *within,
		   json_text_fn fn, void *arg, struct err *e)
{
	struct selector s;
	int rc = selector_parse(&s, selector, e);

	if (!rc)
		rc = selector_check_work(&s, p->table.n, e);
	if (!rc)
		make_text(p, &s, within, write_pods, fn, arg);
	selector_release(&s);
	return rc;
}

void pods_make_jobs_text(struct pods *p, const struct spaces *within, json_text_fn fn, void *arg)
{
	make_text(p, NULL, within, write_jobs, fn, arg);
}
