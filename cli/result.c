/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/result.h"

#include <string.h>

#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"

static void print_tracers(const json_t *host, FILE *out)
{
	const json_t *tracers = json_object_get(host, "tracers");
	const json_t *t;
	size_t i;

	json_array_foreach(tracers, i, t)
	{
		int64_t lost = json_get_int(t, "lost");

		if (!strcmp(json_get_text(t, "state"), "ok") && !lost)
			continue;
		fprintf(out, "    tracer %s: %s", json_get_text(t, "name"),
			json_get_text(t, "state"));
		if (*json_get_text(t, "detail"))
			fprintf(out, ": %s", json_get_text(t, "detail"));
		if (lost)
			fprintf(out, " (%lld records lost)", (long long)lost);
		fputc('\n', out);
	}
}

static void print_steps(const json_t *steps, FILE *out)
{
	long long first = (long long)json_get_int(steps, "first"),
		  last = (long long)json_get_int(steps, "last");

	if (last > first)
		fprintf(out, "  steps %lld-%lld", first, last);
	else if (last == first)
		fprintf(out, "  step %lld", first);
}

static void print_at_step(const json_t *at_step, FILE *out)
{
	char error[16];
	int64_t off_ns = json_get_int(at_step, "error_ns");

	human_time(off_ns < 0 ? -off_ns : off_ns, error);
	fprintf(out, "step    %lld", (long long)json_get_int(at_step, "step"));
	if (json_object_get(at_step, "error_ns"))
		fprintf(out, ", %s %s than expected", error, off_ns < 0 ? "earlier" : "later");
	fputc('\n', out);
}

static void print_refined(const json_t *refined, FILE *out)
{
	int64_t offset_ns = json_get_int(refined, "offset_ns");
	char offset[16], bound[16];

	human_time(offset_ns < 0 ? -offset_ns : offset_ns, offset);
	human_time(json_get_int(refined, "bound_ns"), bound);
	fprintf(out, "  refined %s%s +-%s", offset_ns < 0 ? "-" : "+", offset, bound);
}

static void print_host(const json_t *host, FILE *out)
{
	const json_t *clock = json_object_get(host, "clock");
	const json_t *steps = json_object_get(host, "steps");
	char bytes[16];
	char bound[16] = "";

	human_bytes(json_get_int(host, "bytes"), bytes);
	if (json_get_bool(clock, "calibrated"))
		human_time(json_get_int(host, "clock_bound_ns"), bound);
	fprintf(out, "  %-20s %-10s %9lld events %9s  clock %s%s", json_get_text(host, "host"),
		json_get_text(host, "state"), (long long)json_get_int(host, "events"), bytes,
		*bound ? "+-" : "unknown", bound);
	if (json_object_get(host, "refined"))
		print_refined(json_object_get(host, "refined"), out);
	if (json_array_size(json_object_get(host, "files")) > 1)
		fprintf(out, "  %zu files", json_array_size(json_object_get(host, "files")));
	if (steps)
		print_steps(steps, out);
	if (*json_get_text(host, "reason"))
		fprintf(out, "  %s: %s", json_get_text(host, "reason"),
			json_get_text(host, "detail"));
	fputc('\n', out);
	print_tracers(host, out);
}

static void print_refinement(const json_t *refined, FILE *out)
{
	if (*json_get_text(refined, "reason")) {
		fprintf(out, "refine  not done: %s\n", json_get_text(refined, "reason"));
		return;
	}
	fprintf(out,
		"refine  from %lld flows and barriers of %lld hosts, %lld run backwards, "
		"%lld after refinement; tutti export --refined applies the refinement\n",
		(long long)json_get_int(refined, "pairs"),
		(long long)json_get_int(refined, "hosts"),
		(long long)json_get_int(refined, "backwards_before"),
		(long long)json_get_int(refined, "backwards_after"));
}

/* One line per violation: the key and the two hosts. */
static void print_causality(const json_t *causality, FILE *out)
{
	const json_t *v;
	long long more = (long long)json_get_int(causality, "more");
	size_t i;

	json_array_foreach(json_object_get(causality, "violations"), i, v)
	{
		char by[16];

		human_time(json_get_int(v, "by_ns"), by);
		fprintf(out,
			"warning: %s ends on %s before it begins on %s, by %s beyond the bounds\n",
			json_get_text(v, "key"), json_get_text(v, "early"),
			json_get_text(v, "late"), by);
	}
	if (more)
		fprintf(out, "warning: and %lld more\n", more);
}

void result_print(const json_t *doc, FILE *out)
{
	const json_t *host;
	const json_t *text;
	char start[25];
	char length[16];
	size_t i;

	time_iso(json_get_int(doc, "t0_ns"), start);
	human_time(json_get_int(doc, "duration_ns"), length);
	fprintf(out, "session %s  %s  from %s for %s\n", json_get_text(doc, "session"),
		json_get_text(doc, "state"), start, length);
	if (*json_get_text(doc, "run"))
		fprintf(out, "run     %s\n", json_get_text(doc, "run"));
	if (*json_get_text(doc, "path"))
		fprintf(out, "files   %s\n", json_get_text(doc, "path"));
	if (json_object_get(doc, "at_step"))
		print_at_step(json_object_get(doc, "at_step"), out);
	if (json_object_get(doc, "refined"))
		print_refinement(json_object_get(doc, "refined"), out);
	if (*json_get_text(doc, "error"))
		fprintf(out, "error   %s\n", json_get_text(doc, "error"));
	json_array_foreach(json_object_get(doc, "hosts"), i, host) print_host(host, out);
	json_array_foreach(json_object_get(doc, "warnings"), i, text)
		fprintf(out, "warning: %s\n", json_string_value(text));
	print_causality(json_object_get(doc, "causality"), out);
}

void result_print_text(const struct api_conf *api, const json_t *doc)
{
	if (api->json)
		api_print(doc);
	else
		result_print(doc, stdout);
}

int result_exit_code(const json_t *doc)
{
	if (strcmp(json_get_text(doc, "state"), "committed"))
		return EXIT_NO_HOST;
	return json_get_int(doc, "partial") + json_get_int(doc, "failed") ? EXIT_PARTIAL : EXIT_ALL;
}
