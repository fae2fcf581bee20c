/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/evidence/refine_report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "json/json_text.h"
#include "json/packed.h"
#include "aggregator/evidence/refine.h"
#include "base/log.h"
#include "base/mem.h"

static struct refine_clock clock_of(const json_t *result)
{
	const json_t *clock = json_object_get(result, "clock");

	return (struct refine_clock){
		.bound_ns = json_get_int(result, "clock_bound_ns"),
		.earlier_ns = json_get_int(clock, "earlier_ns"),
		.later_ns = json_get_int(clock, "later_ns"),
	};
}

static json_t *host_json(const struct refined *h)
{
	json_t *o = json_object();

	json_put_int(o, "offset_ns", h->offset_ns);
	json_put_int(o, "bound_ns", h->bound_ns);
	json_put_int(o, "pairs", (json_int_t)h->pairs);
	json_put(o, "hint_ns", h->has_hint ? json_integer(h->hint_ns) : json_null());
	json_put(o, "hint_spread_ns", h->has_hint ? json_integer(h->hint_spread_ns) : json_null());
	return o;
}

static json_t *all_json(const struct refinement *all, enum refine_result result,
			const char *reference)
{
	json_t *o = json_object();

	json_put_text(o, "by", "events");
	json_put_bool(o, "in_files", false);
	json_put_text(o, "reason", refine_result_name(result));
	if (result != REFINE_DONE)
		return o;
	json_put_int(o, "hosts", (json_int_t)all->n_hosts);
	json_put_int(o, "pairs", (json_int_t)all->pairs);
	json_put_text(o, "reference", reference);
	json_put_int(o, "stray_ns", all->stray_ns);
	json_put_int(o, "backwards_before", (json_int_t)all->backwards_before);
	json_put_int(o, "backwards_after", (json_int_t)all->backwards_after);
	return o;
}

/* Removes the results of an earlier commit: a retry has added files. */
static void remove_old(json_t *manifest)
{
	json_t *hosts = json_object_get(manifest, "hosts");

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		json_t *result = packed_get(hosts, i);

		if (json_object_del(result, "refined"))
			json_decref(result);
		else
			packed_set(hosts, i, result);
	}
}

static void put_refined(json_t *results, size_t at, const struct refined *h)
{
	json_t *result = packed_get(results, at);

	json_put(result, "refined", host_json(h));
	packed_set(results, at, result);
}

void refine_report(json_t *manifest, const size_t *at, size_t n, const struct xs_verdict *v)
{
	json_t *results = json_object_get(manifest, "hosts"), *reference;
	struct refine_clock *clocks = xcalloc(n, sizeof(*clocks));
	struct refined *hosts = xcalloc(n, sizeof(*hosts));
	struct refinement all;
	enum refine_result result;

	remove_old(manifest);
	for (size_t i = 0; i < n; i++) {
		json_t *host = packed_get(results, at[i]);

		clocks[i] = clock_of(host);
		json_decref(host);
	}
	result = refine(clocks, n, v->seen, v->n_seen, hosts, &all);
	for (size_t i = 0; i < n; i++) {
		if (hosts[i].pairs)
			put_refined(results, at[i], &hosts[i]);
	}
	reference = n ? packed_get(results, at[all.reference]) : NULL;
	json_put(manifest, "refined", all_json(&all, result, json_get_text(reference, "host")));
	json_decref(reference);
	log_info("AGG-REFINED",
		 "session=%s reason=\"%s\" hosts=%zu pairs=%zu backwards_before=%zu "
		 "backwards_after=%zu",
		 json_get_text(manifest, "session"), refine_result_name(result), all.n_hosts,
		 all.pairs, all.backwards_before, all.backwards_after);
	free(clocks);
	free(hosts);
}
