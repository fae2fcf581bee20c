/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "proto/limits.h"

#define FORGET_EVERY_NS (30 * NS_PER_S)

/* a lost host keeps its place for at least this long: longer than captures wait for its link */
#define LOST_KEEP_NS (5 * NS_PER_S)
/* use_of() gives this for a host that is connected and has measured its clock */
#define IN_USE 3

/* A peer address without its port, and the number of hosts that it has. */
struct registry_peer {
	char *address;
	size_t n;
};

struct watch {
	void (*fn)(void *arg);
	void *arg;
};

/*
 * A cookie has 48 random bits and 16 bits with the index of the host's slot. So the host of a probe is found
 * without a search, since thousands of probes arrive per second. LIMIT_HOSTS fits into 16 bits.
 */
#define SLOTS 65536

struct registry {
	struct loop *loop;
	struct loop_timer forget_timer;
	struct outbox outbox;
	struct host **hosts; /* sorted by name */
	size_t n, cap;
	size_t n_leaving; /* hosts with back_within_ns */
	struct host *slots[SLOTS];
	struct registry_peer **peers; /* sorted by address */
	size_t n_peers, peers_cap;
	size_t address_max; /* hosts of one peer address; 0 = no limit */
	struct settings_lists settings;
	struct texts texts;
	struct watch *watches;
	size_t n_watches;
};

static void on_forget_timer(void *arg)
{
	struct registry *r = arg;

	registry_forget_lost(r, now_real_ns());
	loop_timer_in(r->loop, &r->forget_timer, FORGET_EVERY_NS, on_forget_timer, r);
}

struct registry *registry_new(struct loop *loop)
{
	struct registry *r = xcalloc(1, sizeof(*r));

	r->loop = loop;
	outbox_init(&r->outbox, loop);
	TAILQ_INIT(&r->settings);
	TAILQ_INIT(&r->texts);
	if (loop)
		loop_timer_in(loop, &r->forget_timer, FORGET_EVERY_NS, on_forget_timer, r);
	return r;
}

void host_set_settings(struct host *h, struct settings_list *l_taken)
{
	struct settings_lists *all = &h->registry->settings;
	struct settings_list *before = h->settings;

	h->settings = l_taken ? settings_list_share(all, l_taken) : NULL;
	settings_list_unref(all, before);
}

const struct settings_lists *registry_settings(const struct registry *r)
{
	return &r->settings;
}

struct texts *registry_texts(struct registry *r)
{
	return &r->texts;
}

/* ---- peer addresses ---- */

static size_t address_len(const char *address)
{
	const char *port = strrchr(address, ':');

	return port ? (size_t)(port - address) : strlen(address);
}

static int compare_peer(const struct registry_peer *p, const char *address, size_t len)
{
	int order = strncmp(p->address, address, len);

	return order ? order : p->address[len] != '\0';
}

/* The index of the peer, or the one where it is to be inserted. */
static size_t index_of_peer(const struct registry *r, const char *address, size_t len)
{
	size_t low = 0, high = r->n_peers;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_peer(r->peers[mid], address, len) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct registry_peer *find_peer(const struct registry *r, const char *address)
{
	size_t len = address_len(address), i = index_of_peer(r, address, len);

	return i < r->n_peers && !compare_peer(r->peers[i], address, len) ? r->peers[i] : NULL;
}

static struct registry_peer *add_peer(struct registry *r, const char *address)
{
	size_t len = address_len(address), i = index_of_peer(r, address, len);
	struct registry_peer *p = xcalloc(1, sizeof(*p));

	p->address = xstrndup(address, len);
	if (r->n_peers == r->peers_cap) {
		r->peers_cap = r->peers_cap ? 2 * r->peers_cap : 16;
		r->peers = xrealloc(r->peers, r->peers_cap * sizeof(struct registry_peer *));
	}
	memmove(&r->peers[i + 1], &r->peers[i], (r->n_peers - i) * sizeof(*r->peers));
	r->peers[i] = p;
	r->n_peers++;
	return p;
}

static void drop_peer(struct host *h)
{
	struct registry *r = h->registry;
	struct registry_peer *p = h->peer;
	size_t i;

	h->peer = NULL;
	if (!p || --p->n)
		return;
	i = index_of_peer(r, p->address, strlen(p->address));
	r->n_peers--;
	memmove(&r->peers[i], &r->peers[i + 1], (r->n_peers - i) * sizeof(*r->peers));
	free(p->address);
	free(p);
}

void host_set_address(struct host *h, const char *address)
{
	struct registry_peer *p;

	free(h->address);
	h->address = xstrdup(address);
	drop_peer(h);
	p = find_peer(h->registry, address);
	h->peer = p ? p : add_peer(h->registry, address);
	h->peer->n++;
}

static void drop_cookie(struct host *h)
{
	if (h->probe_cookie)
		h->registry->slots[h->probe_cookie % SLOTS] = NULL;
	h->probe_cookie = 0;
}

static void host_free(struct host *h)
{
	host_drop_unsent(h);
	drop_cookie(h);
	drop_peer(h);
	host_clear_held(h);
	host_clear_labels(h);
	host_clear_tracers(h);
	host_clear_jobs(h);
	host_set_settings(h, NULL);
	host_set_clock(h, NULL);
	text_unref(&h->registry->texts, h->version);
	text_unref(&h->registry->texts, h->profiler_address);
	free(h->name);
	free(h->address);
	free(h);
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	if (r->loop)
		loop_timer_cancel(r->loop, &r->forget_timer);
	for (size_t i = 0; i < r->n; i++)
		host_free(r->hosts[i]);
	outbox_release(&r->outbox);
	free(r->hosts);
	free(r->peers);
	free(r->watches);
	free(r);
}

/* The index of the host, or the one where it is to be inserted; from `low` on. */
static size_t index_from(const struct registry *r, size_t low, const char *name)
{
	size_t high = r->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(r->hosts[mid]->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static size_t index_of(const struct registry *r, const char *name)
{
	return index_from(r, 0, name);
}

size_t registry_index_after(const struct registry *r, const char *name)
{
	size_t i = name ? index_of(r, name) : 0;

	return i + (name && i < r->n && !strcmp(r->hosts[i]->name, name));
}

static struct host *host_at(const struct registry *r, size_t i, const char *name)
{
	return i < r->n && !strcmp(r->hosts[i]->name, name) ? r->hosts[i] : NULL;
}

struct host *registry_find(struct registry *r, const char *name)
{
	return host_at(r, index_of(r, name), name);
}

struct host *registry_find_next(struct registry *r, size_t *at, const char *name)
{
	struct host *h = host_at(r, *at, name);

	if (!h) {
		*at = index_from(r, *at, name);
		h = host_at(r, *at, name);
	}
	*at += h != NULL;
	return h;
}

struct host *registry_find_connected(struct registry *r, const char *name)
{
	struct host *h = registry_find(r, name);

	return h && h->control ? h : NULL;
}

struct host *registry_find_by_cookie(struct registry *r, uint64_t probe_cookie)
{
	struct host *h = r->slots[probe_cookie % SLOTS];

	return h && h->probe_cookie == probe_cookie ? h : NULL;
}

struct host *registry_add(struct registry *r, const char *name)
{
	size_t i = index_of(r, name);
	struct host *h;

	if (i < r->n && !strcmp(r->hosts[i]->name, name))
		return r->hosts[i];
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 16;
		r->hosts = xrealloc(r->hosts, r->cap * sizeof(struct host *));
	}
	memmove(&r->hosts[i + 1], &r->hosts[i], (r->n - i) * sizeof(struct host *));
	r->n++;
	h = xcalloc(1, sizeof(*h));
	*h = (struct host){ .name = xstrdup(name), .address = xstrdup(""), .registry = r };
	h->node = h->name;
	host_set_text(h, &h->version, "");
	host_set_text(h, &h->profiler_address, "");
	host_outbox_init(h, &r->outbox);
	r->hosts[i] = h;
	return h;
}

void registry_remove(struct registry *r, struct host *h)
{
	size_t i = index_of(r, h->name);

	host_set_back_within(h, 0);
	r->n--;
	memmove(&r->hosts[i], &r->hosts[i + 1], (r->n - i) * sizeof(struct host *));
	host_free(h);
}

size_t registry_count(const struct registry *r, size_t *connected)
{
	size_t n = 0;

	if (!connected)
		return r->n; /* called for every Hello, so it does not search all hosts */
	for (size_t i = 0; i < r->n; i++)
		n += r->hosts[i]->control != NULL;
	*connected = n;
	return r->n;
}

static struct host *find_longest_lost(const struct registry *r, int64_t now_real_ns)
{
	struct host *found = NULL;

	for (size_t i = 0; i < r->n; i++) {
		struct host *h = r->hosts[i];

		if (!h->control && now_real_ns - h->seen_real_ns >= LOST_KEEP_NS &&
		    (!found || h->seen_real_ns < found->seen_real_ns))
			found = h;
	}
	return found;
}

/* How much a host is in use: a lost one least, then a connected one that never measured its clock, then one
 * that did. */
static int use_of(const struct host *h)
{
	return 2 * (h->control != NULL) + h->clock.calibrated;
}

static struct host *find_least_used(const struct registry *r, const struct registry_peer *p)
{
	struct host *found = NULL;

	for (size_t i = 0; i < r->n; i++) {
		struct host *h = r->hosts[i];

		if (h->peer == p && (!found || use_of(h) < use_of(found)))
			found = h;
	}
	return found;
}

struct host *registry_find_replaceable(struct registry *r, const char *address, int64_t now_real_ns)
{
	struct host *lost = find_longest_lost(r, now_real_ns);
	const struct registry_peer *own = find_peer(r, address), *most = NULL;

	if (lost)
		return lost;
	for (size_t i = 0; i < r->n_peers; i++) {
		if (!most || r->peers[i]->n > most->n)
			most = r->peers[i];
	}
	if (!most || most->n <= (own ? own->n : 0) + 1)
		return NULL;
	return find_least_used(r, most);
}

void registry_limit_address(struct registry *r, size_t max_hosts)
{
	r->address_max = max_hosts;
}

int registry_find_place(struct registry *r, const char *address, int64_t now_real_ns,
			struct host **replaced, struct err *e)
{
	const struct registry_peer *own = find_peer(r, address);

	*replaced = NULL;
	if (r->address_max && own && own->n >= r->address_max) {
		*replaced = find_least_used(r, own);
		if (use_of(*replaced) < IN_USE)
			return 0;
		*replaced = NULL;
		return err_set(
			e, ERR_LIMIT,
			"%zu hosts with this address are connected, and without certificates no "
			"more are taken: start the aggregator with a larger --hosts-per-address",
			own->n);
	}
	if (r->n < LIMIT_HOSTS)
		return 0;
	*replaced = registry_find_replaceable(r, address, now_real_ns);
	return *replaced ? 0
			 : err_set(e, ERR_LIMIT,
				   "this aggregator has %d hosts, its limit: use another one",
				   LIMIT_HOSTS);
}

/* A host whose agent has stopped on purpose is not lost: it is kept only while another agent may follow. */
static bool is_to_be_kept(const struct host *h, int64_t now_real_ns)
{
	if (h->control)
		return true;
	if (h->back_within_ns)
		return host_replaced_within_ns(h) > 0;
	return now_real_ns - h->seen_real_ns < REGISTRY_KEEP_LOST_NS;
}

size_t registry_forget_lost(struct registry *r, int64_t now_real_ns)
{
	size_t forgotten = 0;

	for (size_t i = r->n; i-- > 0;) {
		struct host *h = r->hosts[i];

		if (is_to_be_kept(h, now_real_ns))
			continue;
		log_info("AGG-HOST-FORGOTTEN", "host=%s", h->name);
		registry_remove(r, h);
		forgotten++;
	}
	if (forgotten)
		registry_notify(r);
	return forgotten;
}

/* ---- a host ---- */

void host_renew_cookie(struct host *h)
{
	struct registry *r = h->registry;
	uint64_t cookie;

	drop_cookie(h);
	do
		random_bytes(&cookie, sizeof(cookie));
	while (!cookie || r->slots[cookie % SLOTS]);
	h->probe_cookie = cookie;
	probe_peer_reset(&h->probes);
	r->slots[cookie % SLOTS] = h;
}

void host_set_control(struct host *h, struct rpc_call *control)
{
	host_drop_unsent(h);
	h->control = control;
	h->pods_told = 0;
	if (control)
		host_set_back_within(h, 0);
	else
		host_set_back_within(h, h->back_within_ns); /* from now on */
}

void host_set_back_within(struct host *h, int64_t within_ns)
{
	h->registry->n_leaving -= h->back_within_ns != 0;
	h->back_within_ns = within_ns;
	h->back_by_mono_ns = now_mono_ns() + within_ns;
	h->registry->n_leaving += within_ns != 0;
}

bool registry_expects_agents(const struct registry *r)
{
	return r->n_leaving;
}

int64_t host_replaced_within_ns(const struct host *h)
{
	int64_t left_ns = h->back_within_ns ? h->back_by_mono_ns - now_mono_ns() : 0;

	return left_ns > 0 ? left_ns : 0;
}

struct host *const *registry_hosts(const struct registry *r, size_t *n)
{
	*n = r->n;
	return r->hosts;
}

/* ---- watching ---- */

void registry_watch(struct registry *r, void (*fn)(void *arg), void *arg)
{
	r->watches = xrealloc(r->watches, (r->n_watches + 1) * sizeof(*r->watches));
	r->watches[r->n_watches++] = (struct watch){ fn, arg };
}

void registry_notify(struct registry *r)
{
	for (size_t i = 0; i < r->n_watches; i++)
		r->watches[i].fn(r->watches[i].arg);
}
