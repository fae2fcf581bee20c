/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a capture from a request: checks all of it and starts nothing. */
#include "aggregator/captures/capture_impl.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "aggregator/captures/options.h"
#include "aggregator/captures/step_plan.h"
#include "aggregator/captures/tracer_settings.h"
#include "aggregator/pods/pods.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"
#include "proto/names.h"

#define MAX_TRACERS	 32
#define LEAD_PER_HOST_NS (200 * NS_PER_US) /* measured by tests/scale with 10,000 hosts */

int capture_check_ready(const struct captures *cs, struct err *e)
{
	if (cs->stopping)
		return err_set(e, ERR_BUSY, "the aggregator is stopping");
	if (!cs->env.store->ready)
		return err_set(e, ERR_BUSY, "the store is not ready: %s",
			       cs->env.store->not_ready.msg);
	return 0;
}

/* The range of each number in a request, so that sums cannot overflow. For some, -1 has a meaning of its own. */
static const struct {
	const char *name;
	size_t offset; /* of an int64_t in struct capture_request */
	int64_t min, max;
	const char *most; /* what `max` is to people, after a comma */
} ranges[] = {
	{ "duration_ns (last_ns)", offsetof(struct capture_request, duration_ns), 1,
	  LIMIT_DURATION_NS, ", an hour" },
	{ "wait_ns", offsetof(struct capture_request, wait_ns), -1, LIMIT_WAIT_NS, ", 7 days" },
	{ "at_step", offsetof(struct capture_request, at_step), STEP_NEXT, LIMIT_STEP, "" },
	{ "steps", offsetof(struct capture_request, n_steps), 0, LIMIT_STEPS, "" },
	{ "not_before_ns", offsetof(struct capture_request, not_before_ns), 0, LIMIT_TIME_NS, "" },
	{ "grace_ns", offsetof(struct capture_request, grace_ns), 0, LIMIT_GRACE_NS, ", 2 hours" },
	{ "ending_at_ns", offsetof(struct capture_request, ending_at_ns), 0, LIMIT_TIME_NS, "" },
	{ "ago_ns", offsetof(struct capture_request, ago_ns), 0, LIMIT_DURATION_NS, ", an hour" },
	{ "commit_by_ns", offsetof(struct capture_request, commit_by_ns), 0, LIMIT_TIME_NS, "" },
};

static int check_request(const struct capture_request *req, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		int64_t value;

		memcpy(&value, (const char *)req + ranges[i].offset, sizeof(value));
		if (value < ranges[i].min || value > ranges[i].max)
			return err_set(e, ERR_INVALID,
				       "%s %" PRId64 ": use %" PRId64 " to %" PRId64 "%s",
				       ranges[i].name, value, ranges[i].min < 0 ? 0 : ranges[i].min,
				       ranges[i].max, ranges[i].most);
	}
	if (req->n_steps && !req->by_step)
		return err_set(e, ERR_INVALID, "steps: needs at_step, a number or \"next\"");
	if (req->refine && *req->refine && strcmp(req->refine, "events"))
		return err_set(e, ERR_INVALID, "refine '%.60s': use events", req->refine);
	return req->run && *req->run ? name_check_run(req->run, e) : 0;
}

/* The hosts that the caller may see; NULL = all. What he may not see is as if it were not there. */
struct visible {
	struct registry *registry;
	const struct pods_selection *within;
};

static int compare_host(const void *name, const void *host)
{
	return strcmp(name, (*(struct host *const *)host)->name);
}

static bool is_visible(const struct visible *v, const char *name)
{
	const struct pods_selection *s = v->within;

	if (!s)
		return registry_find(v->registry, name) != NULL;
	return s->n_hosts &&
	       bsearch(name, s->hosts, s->n_hosts, sizeof(struct host *), compare_host);
}

/* Checks that all hosts in `known` are known. A restarted aggregator learns its fleet only from agents that
 * connect, so until then "all" would miss some. */
static int check_known(const struct visible *visible, const json_t *names, struct err *e)
{
	size_t i;
	json_t *name;

	json_array_foreach(names, i, name)
	{
		if (!json_is_string(name))
			return err_set(e, ERR_INVALID, "known is not an array of names");
		if (!is_visible(visible, json_string_value(name)))
			return err_set(e, ERR_BUSY,
				       "host %.60s has not connected to this aggregator yet",
				       json_string_value(name));
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The expected hosts that no agent has told of, in order, each once; the names are borrowed. Whoever takes window after window expects
 * the hosts of the one before: a host that ended together with an aggregator is in no registry. */
struct unknown_hosts {
	const char **names;
	size_t n;
};

static int find_unknown(const struct visible *visible, const json_t *expected,
			struct unknown_hosts *out, struct err *e)
{
	size_t i, n = json_array_size(expected), unique = 0;
	json_t *name;
	int rc;

	if (n > LIMIT_HOSTS)
		return err_set(e, ERR_LIMIT, "expected has %zu names: at most %d", n, LIMIT_HOSTS);
	out->names = xcalloc(n + 1, sizeof(*out->names));
	json_array_foreach(expected, i, name)
	{
		if (!json_is_string(name))
			return err_set(e, ERR_INVALID, "expected is not an array of names");
		rc = name_check_host(json_string_value(name), e);
		if (rc)
			return err_prefix(e, "expected");
		if (!is_visible(visible, json_string_value(name)))
			out->names[out->n++] = json_string_value(name);
	}
	qsort(out->names, out->n, sizeof(*out->names), compare_names);
	for (i = 0; i < out->n; i++) {
		if (!i || strcmp(out->names[i], out->names[unique - 1]) != 0)
			out->names[unique++] = out->names[i];
	}
	out->n = unique;
	return 0;
}

/* The names in the request, besides its selector. */
static int check_names(const struct captures *cs, const struct capture_request *req,
		       struct unknown_hosts *unknown, struct err *e)
{
	struct pods_selection within = { 0 };
	struct visible visible = { .registry = cs->env.registry };
	bool has_names = json_array_size(req->known) || json_array_size(req->expected);
	int rc;

	if (has_names && req->within && !req->within->all) {
		/* fails where there is no host at all for him */
		(void)!pods_select(cs->env.pods, cs->env.registry, "all", req->within, &within,
				   NULL);
		visible.within = &within;
	}
	rc = check_known(&visible, req->known, e);
	if (!rc)
		rc = find_unknown(&visible, req->expected, unknown, e);
	pods_selection_release(&within);
	return rc;
}

/* ---- tracers ---- */

static bool host_has_tracer(const struct host *h, const char *name)
{
	for (size_t i = 0; i < h->n_tracers; i++) {
		if (!strcmp(h->tracers[i].name, name))
			return true;
	}
	return false;
}

static int check_tracer(const char *name, struct host **hosts, size_t n, struct err *e)
{
	if (!name)
		return err_set(e, ERR_INVALID, "tracers is not an array of names");
	for (size_t i = 0; i < n; i++) {
		if (host_has_tracer(hosts[i], name))
			return 0;
	}
	return err_set(e, ERR_INVALID, "no selected host has a tracer '%.60s'", name);
}

static int set_tracers(struct capture *c, const json_t *names, struct host **hosts, size_t n,
		       struct err *e)
{
	size_t count = json_array_size(names);

	if (names && !json_is_array(names))
		return err_set(e, ERR_INVALID, "tracers is not an array of names");
	if (count > MAX_TRACERS)
		return err_set(e, ERR_INVALID, "more than %d tracers", MAX_TRACERS);
	if (!count)
		return 0;
	c->tracers = xcalloc(count + 1, sizeof(char *));
	for (size_t i = 0; i < count; i++) {
		const char *name = json_string_value(json_array_get(names, i));
		int rc = check_tracer(name, hosts, n, e);

		if (rc)
			return rc;
		c->tracers[i] = xstrdup(name);
	}
	return 0;
}

/* ---- hosts, window, options ---- */

static int set_options(struct capture *c, const struct capture_request *req, struct err *e)
{
	c->warnings = json_array();
	c->settings = req->settings ? json_deep_copy(req->settings) : json_object();
	if (!req->options)
		return options_from_settings(c->settings, req->duration_ns, &c->options,
					     &c->options_len, e);
	c->options = xmalloc(req->options_len);
	memcpy(c->options, req->options, req->options_len);
	c->options_len = req->options_len;
	return 0;
}

void capture_new_hosts(struct capture *c, size_t n)
{
	c->hosts = xcalloc(n + 1, sizeof(*c->hosts));
	c->n_hosts = n;
	c->last_detail = "";
	for (size_t i = 0; i < n; i++) {
		c->hosts[i].name = c->hosts[i].reason = c->hosts[i].detail = "";
		c->hosts[i].capture = c;
	}
}

/* Both are in order of their names, and so are the capture's. */
static void set_hosts(struct capture *c, struct host *const *hosts, size_t n,
		      const struct unknown_hosts *unknown)
{
	size_t at = 0, s = 0;

	capture_new_hosts(c, n + unknown->n);
	for (size_t i = 0; i < c->n_hosts; i++) {
		bool is_unknown = s < unknown->n &&
				  (at == n || strcmp(unknown->names[s], hosts[at]->name) < 0);

		c->hosts[i].name = pool_text(&c->kept,
					     is_unknown ? unknown->names[s++] : hosts[at++]->name);
	}
}

bool capture_has_tracer(const struct capture *c, const char *name)
{
	for (size_t i = 0; c->tracers && c->tracers[i]; i++) {
		if (!strcmp(c->tracers[i], name))
			return true;
	}
	return !c->tracers || !c->tracers[0];
}

/* What the connected agents of a capture's hosts have. */
struct agents {
	int64_t bound_ns; /* the largest bound of their clocks */
	int64_t lead_ns; /* the largest lead of the capture's tracers */
};

static int64_t lead_of_tracers(const struct capture *c, const struct host *h, int64_t lead_ns)
{
	for (size_t k = 0; k < h->n_tracers; k++) {
		if (h->tracers[k].lead_ns > lead_ns && capture_has_tracer(c, h->tracers[k].name))
			lead_ns = h->tracers[k].lead_ns;
	}
	return lead_ns;
}

int64_t capture_tracers_lead(const struct capture *c)
{
	int64_t lead_ns = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		const struct host *h = capture_host_find_agent(&c->hosts[i]);

		if (h)
			lead_ns = lead_of_tracers(c, h, lead_ns);
	}
	return lead_ns;
}

/* Sets the agents that are connected now. `hosts` are those of the capture, or NULL: then they are looked for. */
static struct agents update_agents(struct capture *c, struct host *const *hosts)
{
	struct agents all = { 0 };
	size_t at = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		const struct host *host = hosts ? hosts[i]
						: registry_find_next(c->captures->env.registry, &at,
								     c->hosts[i].name);

		if (c->hosts[i].is_other)
			host = NULL;
		c->hosts[i].instance = host && host->control ? host->instance : 0;
		if (host && host->clock.calibrated && host->clock.bound_ns > all.bound_ns)
			all.bound_ns = host->clock.bound_ns;
		if (host && host->control)
			all.lead_ns = lead_of_tracers(c, host, all.lead_ns);
	}
	return all;
}

/* The first capture of a fleet has no measured answers to Arm yet, so the lead also grows with the number of
 * hosts. */
int64_t capture_lead(const struct captures *cs, size_t n_hosts, int64_t bound_ns)
{
	int64_t fleet_ns = (int64_t)n_hosts * LEAD_PER_HOST_NS;
	int64_t lead_ns = cs->env.lead_ns;

	return lead_choose(&cs->lead, lead_ns > fleet_ns ? lead_ns : fleet_ns, bound_ns);
}

static void choose_window(struct capture *c, struct agents agents)
{
	/* An open-ended capture begins now. A host that is armed later has the time since T0 in its rings. */
	c->lead_ns = c->open_ended ? 0 : capture_lead(c->captures, c->n_hosts, agents.bound_ns);
	if (!c->open_ended && !c->by_step && agents.lead_ns > c->lead_ns)
		c->lead_ns = agents.lead_ns;
	c->t0_ns = captures_now(c->captures) + c->lead_ns;
	if (c->t0_ns < c->not_before_ns)
		c->t0_ns = c->not_before_ns;
}

static void renew(struct capture *c, struct host *const *hosts)
{
	struct agents agents = update_agents(c, hosts);

	if (!c->snapshot)
		choose_window(c, agents);
	capture_set_deadline(c, c->t0_ns + c->duration_ns);
}

void capture_renew(struct capture *c)
{
	capture_find_others(c);
	renew(c, NULL);
}

static void set_request(struct capture *c, const struct capture_request *req)
{
	c->run = xstrdup(req->run ? req->run : "");
	c->origin = xstrdup(req->origin ? req->origin : "");
	c->owner = xstrdup(req->owner ? req->owner : "");
	c->client_session = xstrdup(req->client_session ? req->client_session : "");
	c->open_ended = req->open_ended;
	c->duration_ns = req->duration_ns;
	c->not_before_ns = req->not_before_ns;
	c->commit_by_ns = req->commit_by_ns;
	c->grace_given_ns = req->grace_ns;
	c->clock_shift_ns = c->captures->env.clock->shift_ns;
	c->refine = req->refine && *req->refine;
	c->by_step = req->by_step;
	c->at_step = req->at_step;
	c->n_steps = req->n_steps;
}

struct capture *capture_new(struct captures *cs)
{
	struct capture *c = xcalloc(1, sizeof(*c));

	c->captures = cs;
	c->state = CAP_PLANNING;
	c->revision = 1;
	c->callers = 1;
	c->arm_by_ns = c->next_reconnect_by_ns = INT64_MAX;
	TAILQ_INIT(&c->walks);
	return c;
}

int capture_build(struct captures *cs, const struct capture_request *req, struct capture **out,
		  struct err *e)
{
	struct capture *c = capture_new(cs);
	struct pods_selection selected = { 0 };
	struct unknown_hosts unknown = { 0 };
	char name[SESSION_NAME_BYTES];
	int rc;

	rc = capture_check_ready(cs, e);
	if (!rc)
		rc = check_request(req, e);
	if (!rc)
		rc = check_names(cs, req, &unknown, e);
	if (!rc)
		rc = pods_select(cs->env.pods, cs->env.registry,
				 req->hosts && *req->hosts ? req->hosts : "all", req->within,
				 &selected, e);
	if (!rc)
		rc = set_options(c, req, e);
	if (!rc)
		rc = set_tracers(c, req->tracers, selected.hosts, selected.n_hosts, e);
	if (!rc)
		rc = tracer_settings_check(c->settings, c->tracers, selected.hosts,
					   selected.n_hosts, c->warnings, e);
	if (rc) {
		capture_free(c);
		goto out;
	}
	set_request(c, req);
	set_hosts(c, selected.hosts, selected.n_hosts, &unknown);
	spaces_copy(&c->spaces, &selected.spaces);
	capture_set_pods(c, &selected);
	if (unknown.n)
		capture_find_others(c);
	rc = req->snapshot ? capture_set_snapshot(c, req, e) : 0;
	if (rc) {
		capture_free(c);
		goto out;
	}
	renew(c, unknown.n ? NULL : selected.hosts);
	name_make_session(c->t0_ns, name);
	c->session = xstrdup(name);
	*out = c;
out:
	pods_selection_release(&selected);
	free(unknown.names);
	return rc;
}

/* ---- free ---- */

static void run_free(void *arg)
{
	struct capture *c = arg;

	for (size_t i = 0; i < c->n_hosts; i++) {
		free(c->hosts[i].upload_error);
		free(c->hosts[i].observations);
	}
	free(c->hosts);
	pool_release(&c->kept);
	for (size_t i = 0; c->tracers && c->tracers[i]; i++)
		free(c->tracers[i]);
	free(c->tracers);
	free(c->session);
	free(c->run);
	free(c->origin);
	free(c->owner);
	free(c->retried_by);
	spaces_release(&c->spaces);
	free(c->client_session);
	free(c->options);
	free(c->durable_watches);
	json_decref(c->settings);
	json_decref(c->warnings);
	json_decref(c->earlier_pods);
	free(c);
}

static void done_free(void *arg)
{
	(void)arg;
}

/* A capture of 10,000 hosts takes milliseconds to free. */
void capture_free(struct capture *c)
{
	struct captures *cs = c->captures;

	c->free_pending = true;
	if (c->n_holds)
		return;
	capture_release_pods(c);
	if (c->n_hosts > CAPTURE_TURN_HOSTS && cs && !cs->stopping)
		jobs_work(cs->env.jobs, run_free, done_free, c);
	else
		run_free(c);
}
