/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/unit/xspace/samples.h"

typedef Tensorflow__Profiler__XSpace Space;
typedef Tensorflow__Profiler__XPlane Plane;
typedef Tensorflow__Profiler__XStat Stat;

/* ---- inputs ---- */

struct input {
	struct buf bytes;
	struct xs_source memory;
};

/* An XSpace with planes of these names; plane i has id i and one line with one event. */
static void input_build(struct input *in, const char *const *names)
{
	struct xs_builder *b = xs_builder_new();

	*in = (struct input){ .bytes = BUF_INIT };
	for (int64_t i = 0; names[i]; i++) {
		xs_plane(b, i, names[i]);
		xs_line(b, 7, "line", 1000);
		xs_event(b, "event", 5, 6);
	}
	xs_hostname(b, "theirs");
	xs_error(b, "broken");
	xs_warning(b, "lost 5");
	xs_warning(b, "lost 5");
	xs_finish(b, &in->bytes);
	in->memory = source_of(&in->bytes);
	xs_builder_free(b);
}

static Space *merge(const struct xs_input *inputs, size_t n, const struct xs_host *host)
{
	struct buf out = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out);
	struct xs_counts counts;
	struct err e = { 0 };
	Space *s;

	CHECK_OK(xs_merge(inputs, n, host, &sink, &counts, &e), e);
	CHECK_EQ(counts.bytes, out.len);
	s = unpack(&out);
	CHECK_EQ(counts.planes, s->n_planes);
	buf_release(&out);
	return s;
}

static void space_free(Space *s)
{
	tensorflow__profiler__xspace__free_unpacked(s, NULL);
}

static const Plane *plane(const Space *s, const char *name)
{
	const Plane *found = NULL;

	for (size_t i = 0; i < s->n_planes; i++) {
		if (strcmp(s->planes[i]->name, name))
			continue;
		CHECK(!found);
		found = s->planes[i];
	}
	if (!found)
		fprintf(stderr, "no plane is called %s\n", name);
	CHECK(found);
	return found;
}

static const Stat *plane_stat(const Plane *p, const char *name)
{
	for (size_t i = 0; i < p->n_stats; i++) {
		for (size_t k = 0; k < p->n_stat_metadata; k++) {
			if (p->stat_metadata[k]->key == p->stats[i]->metadata_id &&
			    !strcmp(p->stat_metadata[k]->value->name, name))
				return p->stats[i];
		}
	}
	return NULL;
}

/* ---- names and ids ---- */

struct wanted {
	const char *names[10];
	int64_t ids[10];
};

/* Three inputs: of process 11, of process 22, Tutti's own. */
static void check_names(const char *const in[3][10], const struct wanted *want)
{
	static const int64_t pids[] = { 11, 22, 0 };
	struct input built[3];
	struct xs_input inputs[3];
	struct xs_host host = { .hostname = "h" };
	size_t n = 0;
	Space *s;

	for (size_t i = 0; i < 3; i++) {
		input_build(&built[i], in[i]);
		inputs[i] = (struct xs_input){ .source = built[i].memory, .pid = pids[i] };
	}
	s = merge(inputs, 3, &host);
	for (; want->names[n]; n++) {
		CHECK_STR(s->planes[n]->name, want->names[n]);
		CHECK_EQ(s->planes[n]->id, want->ids[n]);
	}
	CHECK_EQ(s->n_planes, n + 1);
	CHECK_STR(s->planes[n]->name, "Task Environment");
	space_free(s);
	for (size_t i = 0; i < 3; i++)
		buf_release(&built[i].bytes);
}

static void test_host_planes(void)
{
	/* The first process's plane is the host's. */
	check_names((const char *const[3][10]){ { "/host:CPU", "Task Environment" },
						{ "/host:CPU" },
						{ "/host:CPU", "/host:CPU metrics",
						  "/host:CPU marks" } },
		    &(struct wanted){ { "/host:CPU", "/host:CPU [22]", "/host:CPU samples",
					"/host:CPU metrics", "/host:CPU marks" },
				      { 0, 0, 0, 1, 2 } });
	/* A process that has none does not count; a second one in the same process does. */
	check_names((const char *const[3][10]){ { "/host:metadata" },
						{ "/host:CPU", "/host:CPU", "/host:metadata" },
						{ "/host:CPU" } },
		    &(struct wanted){ { "/host:metadata", "/host:CPU", "/host:CPU [22]",
					"/host:metadata [22]", "/host:CPU samples" },
				      { 0, 0, 1, 2, 0 } });
	/* Without a process ours is. */
	check_names((const char *const[3][10]){ { "x" }, { NULL }, { "/host:CPU", "x", "x" } },
		    &(struct wanted){ { "x", "/host:CPU", "x #2", "x #3" }, { 0, 0, 1, 2 } });
	/* A name that we would give is there already. */
	check_names((const char *const[3][10]){ { "/host:CPU", "/host:CPU [22]" },
						{ "/host:CPU", "/host:CPU" },
						{ NULL } },
		    &(struct wanted){ { "/host:CPU", "/host:CPU [22]", "/host:CPU [22] #2",
					"/host:CPU [22] #3" },
				      { 0, 1, 0, 1 } });
}

static void test_device_planes(void)
{
	check_names((const char *const[3][10]){ { "/device:GPU:0", "/device:GPU:1" },
						{ "/device:GPU:0", "/device:GPU:2" },
						{ NULL } },
		    &(struct wanted){
			    { "/device:GPU:0", "/device:GPU:1", "/device:GPU:3", "/device:GPU:2" },
			    { 0, 1, 2, 3 } });
	/* All planes of a device go with it; GPUs and TPUs share ids. */
	check_names((const char *const[3][10]){ { "/device:TPU:0", "/device:TPU:0 SparseCore 1" },
						{ "/device:TPU:0 SparseCore 0", "/device:TPU:0",
						  "/device:GPU:0" },
						{ NULL } },
		    &(struct wanted){ { "/device:TPU:0", "/device:TPU:0 SparseCore 1",
					"/device:TPU:1 SparseCore 0", "/device:TPU:1",
					"/device:GPU:0" },
				      { 0, 1, 2, 3, 4 } });
	/* Custom devices keep their names as long as they are different. */
	check_names((const char *const[3][10]){ { "/device:CUSTOM:Megascale Trace" },
						{ "/device:CUSTOM:Megascale Trace" },
						{ "/device:CUSTOM:ours" } },
		    &(struct wanted){ { "/device:CUSTOM:Megascale Trace",
					"/device:CUSTOM:Megascale Trace [22]",
					"/device:CUSTOM:ours" },
				      { 0, 1, 2 } });
	/* Not numbers. */
	check_names(
		(const char *const[3][10]){
			{ "/device:GPU:", "/device:GPU:12345678901234567890", "/device:GPU:1x" },
			{ "/device:GPU:" },
			{ NULL } },
		&(struct wanted){ { "/device:GPU:", "/device:GPU:12345678901234567890",
				    "/device:GPU:1x", "/device:GPU: [22]" },
				  { 0, 1, 2, 3 } });
}

static void test_ids_stay_within_what_is_shown(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;
	struct xs_input input = { .pid = 1 };
	struct xs_host host = { .hostname = "h" };
	bool seen[500] = { false };
	char name[64];
	Space *s;

	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "/device:GPU:%d", i);
		xs_plane(b, INT64_C(1000000) * i - 7, name);
	}
	xs_finish(b, &bytes);
	input.source = source_of(&bytes);
	s = merge(&input, 1, &host);
	for (int i = 0; i < 500; i++) {
		CHECK(s->planes[i]->id >= 0 && s->planes[i]->id < 500);
		CHECK(!seen[s->planes[i]->id]);
		seen[s->planes[i]->id] = true;
	}
	space_free(s);
	buf_release(&bytes);
	xs_builder_free(b);
}

/* ---- process_id ---- */

static void check_process_id(const Plane *p, int64_t pid)
{
	const Stat *s = plane_stat(p, "process_id");

	CHECK(s);
	CHECK_EQ(s->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_INT64_VALUE);
	CHECK_EQ(s->int64_value, pid);
}

static void test_process_id(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;
	struct xs_input inputs[2] = { { .pid = 4711 }, { .pid = 0 } };
	struct xs_host host = { .hostname = "h" };
	const Plane *p;
	Space *s;

	xs_plane(b, 1, "lacks it");
	xs_stat_int(b, "other", 1);
	xs_stat_str(b, "text", "value");
	xs_plane(b, 1, "has the name");
	xs_stat_str(b, "text", "process_id");
	xs_plane(b, 1, "has it");
	xs_stat_int(b, "process_id", 5);
	xs_plane(b, 1, "has nothing");
	xs_finish(b, &bytes);
	inputs[0].source = inputs[1].source = source_of(&bytes);
	s = merge(inputs, 2, &host);
	p = plane(s, "lacks it");
	check_process_id(p, 4711);
	CHECK_EQ(p->n_stat_metadata, 4);
	CHECK_EQ(p->stat_metadata[3]->key, 4);
	CHECK_EQ(p->stat_metadata[3]->value->id, 4);
	p = plane(s, "has the name");
	check_process_id(p, 4711);
	CHECK_EQ(p->n_stat_metadata, 2);
	check_process_id(plane(s, "has it"), 5);
	CHECK_EQ(plane(s, "has it")->n_stats, 1);
	check_process_id(plane(s, "has nothing"), 4711);
	CHECK(!plane_stat(plane(s, "lacks it #2"), "process_id"));
	space_free(s);
	buf_release(&bytes);
	xs_builder_free(b);
}

/* What is known of process 4711, and of no other. */
static size_t know(void *arg, int64_t pid, struct xs_known out[XS_KNOWN_MOST])
{
	(void)arg;
	if (pid != 4711)
		return 0;
	out[0] = (struct xs_known){ .name = "pod", .text = "train-0\xff" };
	out[1] = (struct xs_known){ .name = "rank", .number = 3 };
	return 2;
}

static void test_known_stats(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;
	struct xs_input inputs[3] = { { .pid = 4711 }, { .pid = 0 }, { .pid = 4712 } };
	struct xs_host host = { .hostname = "h", .process = know };
	const Plane *p;
	Space *s;

	xs_plane(b, 1, "lacks it");
	xs_plane(b, 1, "has it");
	xs_stat_int(b, "process_id", 4711);
	xs_finish(b, &bytes);
	for (size_t i = 0; i < 3; i++)
		inputs[i].source = source_of(&bytes);
	s = merge(inputs, 3, &host);
	p = plane(s, "lacks it");
	check_process_id(p, 4711);
	CHECK_STR(plane_stat(p, "pod")->str_value, "train-0?");
	CHECK_EQ(plane_stat(p, "rank")->int64_value, 3);
	CHECK_EQ(p->n_stat_metadata, 3);
	CHECK_EQ(p->stat_metadata[2]->key, 3);
	/* Tutti's own planes are of the process that they say; a framework's are of its own, whatever it writes. */
	CHECK(!plane_stat(plane(s, "lacks it #2"), "pod"));
	CHECK_EQ(plane_stat(plane(s, "has it #2"), "rank")->int64_value, 3);
	CHECK(!plane_stat(plane(s, "has it [4712]"), "pod"));
	space_free(s);
	buf_release(&bytes);
	xs_builder_free(b);
}

/* ---- what the host adds ---- */

static void add_environment(void *arg, struct xs_builder *b)
{
	xs_stat_int(b, "clock_offset_ns", *(int64_t *)arg);
}

static void test_task_environment_and_texts(void)
{
	static const char *const warnings[] = { "host's own", "jax 1: lost 5", NULL };
	int64_t offset = -17;
	struct xs_host host = {
		.hostname = "host-a",
		.profile_start_ns = UINT64_C(1760000000000000000),
		.profile_stop_ns = UINT64_C(1760000002000000000),
		.profile_options = "\x01\x02",
		.profile_options_len = 2,
		.environment = add_environment,
		.arg = &offset,
		.warnings = warnings,
	};
	struct input in;
	struct xs_input inputs[2];
	const Plane *p;
	const Stat *stat;
	Space *s;

	input_build(&in, (const char *const[]){ "/host:CPU", "Task Environment", NULL });
	inputs[0] = (struct xs_input){ .source = in.memory, .pid = 1, .label = "jax 1" };
	inputs[1] = (struct xs_input){ .source = in.memory, .pid = 2, .label = "jax 2" };
	s = merge(inputs, 2, &host);
	p = plane(s, "Task Environment");
	CHECK_EQ(p->n_lines, 0);
	CHECK_EQ(p->n_stats, 4);
	stat = plane_stat(p, "profile_start_time");
	CHECK_EQ(stat->value_case, TENSORFLOW__PROFILER__XSTAT__VALUE_UINT64_VALUE);
	CHECK_EQ(stat->uint64_value, host.profile_start_ns);
	CHECK_EQ(plane_stat(p, "profile_stop_time")->uint64_value, host.profile_stop_ns);
	CHECK_EQ(plane_stat(p, "profile_options")->bytes_value.len, 2);
	CHECK_EQ(plane_stat(p, "clock_offset_ns")->int64_value, -17);
	CHECK_EQ(s->n_hostnames, 1);
	CHECK_STR(s->hostnames[0], "host-a");
	CHECK_EQ(s->n_warnings, 3);
	CHECK_STR(s->warnings[0], "host's own");
	CHECK_STR(s->warnings[1], "jax 1: lost 5");
	CHECK_STR(s->warnings[2], "jax 2: lost 5");
	CHECK_EQ(s->n_errors, 2);
	CHECK_STR(s->errors[1], "jax 2: broken");
	space_free(s);
	buf_release(&in.bytes);
}

static void test_texts_are_bounded(void)
{
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;
	struct xs_input input = { .label = NULL };
	struct xs_host host = { .hostname = "h" };
	char *big = xcalloc(1, 10001);
	char text[32];
	Space *s;

	memset(big, 'b', 10000);
	xs_error(b, big);
	for (int i = 0; i < XS_MAX_TEXTS + 5; i++) {
		snprintf(text, sizeof(text), "warning %d", i);
		xs_warning(b, text);
	}
	xs_finish(b, &bytes);
	input.source = source_of(&bytes);
	s = merge(&input, 1, &host);
	CHECK_EQ(strlen(s->errors[0]), 4096);
	CHECK_EQ(s->n_warnings, XS_MAX_TEXTS + 1);
	CHECK_STR(s->warnings[XS_MAX_TEXTS], "5 more are left out");
	space_free(s);
	buf_release(&bytes);
	xs_builder_free(b);
	free(big);
}

/* XProf finds HLO by the plane's name: a warning says whose it does not find. */
static void test_hidden_hlo(void)
{
	static const char *const names[] = { "/host:metadata", "/host:CPU", NULL };
	struct input in[2];
	struct xs_input inputs[2];
	struct xs_host host = { .hostname = "h" };
	Space *s;

	for (int i = 0; i < 2; i++) {
		input_build(&in[i], names);
		inputs[i] = (struct xs_input){
			.source = in[i].memory,
			.pid = 7 + i,
			.label = i ? "jax 8" : "jax 7",
		};
	}
	s = merge(inputs, 2, &host);
	CHECK(plane(s, "/host:metadata") && plane(s, "/host:metadata [8]"));
	CHECK_EQ(s->n_warnings, 3); /* theirs, too */
	CHECK(!strncmp(s->warnings[2], "jax 8: its HLO is in the plane /host:metadata [8]", 49));
	space_free(s);
	for (int i = 0; i < 2; i++)
		buf_release(&in[i].bytes);
}

static void test_no_inputs(void)
{
	struct xs_host host = { .hostname = "h" };
	Space *s = merge(NULL, 0, &host);

	CHECK_EQ(s->n_planes, 1);
	space_free(s);
}

static void test_errors_name_the_input(void)
{
	struct input good;
	struct xs_input inputs[2];
	struct xs_host host = { .hostname = "h" };
	struct buf out = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&out);
	struct err e = { 0 };

	input_build(&good, (const char *const[]){ "a", NULL });
	inputs[0] = (struct xs_input){ .source = good.memory, .label = "good" };
	inputs[1] = (struct xs_input){ .source = xs_source_memory("\x0a\x02\x1a\x01", 4),
				       .label = "jax 7" };
	CHECK_EQ(xs_merge(inputs, 2, &host, &sink, NULL, &e), ERR_INVALID);
	CHECK_STR(e.msg, "jax 7: plane 0: at byte 2: length 1 runs past its parent");
	CHECK_EQ(out.len, 0);
	inputs[1].label = ""; /* Tutti's own */
	CHECK_EQ(xs_merge(inputs, 2, &host, &sink, NULL, &e), ERR_INVALID);
	CHECK_STR(e.msg, "plane 0: at byte 2: length 1 runs past its parent");
	buf_release(&good.bytes);
}

/* ---- all the rest is untouched ---- */

static int64_t shift(void *arg, int64_t ns)
{
	return (int64_t)((uint64_t)ns + (uint64_t) * (int64_t *)arg);
}

/* Takes out of a merged plane what the merge put in, to hold it against rebase's. */
static void undo(Plane *got, const Plane *want)
{
	if (got->name != protobuf_c_empty_string)
		free(got->name);
	got->name = xstrdup(want->name);
	got->id = want->id;
	while (got->n_stats > want->n_stats)
		protobuf_c_message_free_unpacked(&got->stats[--got->n_stats]->base, NULL);
	while (got->n_stat_metadata > want->n_stat_metadata)
		protobuf_c_message_free_unpacked(&got->stat_metadata[--got->n_stat_metadata]->base,
						 NULL);
}

static void check_plane(Plane *got, Plane *want)
{
	Plane *got_list[] = { got }, *want_list[] = { want };
	Space a = TENSORFLOW__PROFILER__XSPACE__INIT, b = TENSORFLOW__PROFILER__XSPACE__INIT;

	a.n_planes = b.n_planes = 1;
	a.planes = got_list;
	b.planes = want_list;
	check_same(&a, &b);
}

static void test_random_spaces(struct random *r)
{
	static const int64_t windows[] = { 0, 500 };

	for (int round = 0; round < 60; round++) {
		struct buf in[3] = { BUF_INIT, BUF_INIT, BUF_INIT }, out = BUF_INIT,
			   again = BUF_INIT;
		struct xs_source memory[3];
		struct xs_input inputs[3];
		struct xs_host host = { .hostname = "h" };
		struct xs_sink sink = xs_sink_buf(&out), again_sink = xs_sink_buf(&again);
		int64_t by = random_below(r, 2) ? -300 : 300;
		struct err e = { 0 };
		size_t n = 0;
		Space *merged;

		for (size_t i = 0; i < 3; i++) {
			random_xspace(r, 1000, &in[i]);
			memory[i] = source_of(&in[i]);
			inputs[i] = (struct xs_input){ .source = memory[i],
						       .rebase = { shift, &by,
								   windows[random_below(r, 2)] },
						       .pid = (int64_t)random_below(r, 3) };
		}
		CHECK_OK(xs_merge(inputs, 3, &host, &sink, NULL, &e), e);
		for (size_t i = 0; i < 3; i++)
			inputs[i].source = windowed(&memory[i], random_below(r, 300));
		CHECK_OK(xs_merge(inputs, 3, &host, &again_sink, NULL, &e), e);
		CHECK_EQ(again.len, out.len);
		CHECK(!memcmp(again.data, out.data, out.len));

		merged = unpack(&out);
		for (size_t i = 0; i < 3; i++) {
			struct buf alone = BUF_INIT;
			struct xs_sink alone_sink = xs_sink_buf(&alone);
			Space *want;

			CHECK_OK(xs_rebase(&memory[i], &inputs[i].rebase, &alone_sink, NULL, &e),
				 e);
			want = unpack(&alone);
			for (size_t k = 0; k < want->n_planes; k++, n++) {
				undo(merged->planes[n], want->planes[k]);
				check_plane(merged->planes[n], want->planes[k]);
			}
			space_free(want);
			buf_release(&alone);
			buf_release(&in[i]);
		}
		CHECK_EQ(merged->n_planes, n + 1);
		space_free(merged);
		buf_release(&out);
		buf_release(&again);
	}
}

/* ---- further files ---- */

struct files {
	struct buf all;
	size_t ends[8];
	unsigned int n;
	char hostname[16];
	const char *too_large;
};

static const char *next_file(void *arg, unsigned int n)
{
	struct files *f = arg;

	f->ends[f->n++] = f->all.len;
	CHECK_EQ(n, f->n + 1);
	snprintf(f->hostname, sizeof(f->hostname), "h~%u", n);
	return n > 3 ? NULL : f->hostname;
}

static void on_too_large(void *arg, size_t input, const char *plane, uint64_t bytes)
{
	struct files *f = arg;

	CHECK_EQ(input, 0);
	CHECK(bytes > 1000);
	CHECK(!f->too_large);
	f->too_large = strcmp(plane, "large") ? "another" : "large";
}

static void check_one_file(const struct files *f, unsigned int i, const char *const *names)
{
	size_t begin = i ? f->ends[i - 1] : 0;
	struct buf one = BUF_INIT;
	size_t n = 0;
	Space *s;

	buf_add(&one, f->all.data + begin, f->ends[i] - begin);
	s = unpack(&one);
	for (; names[n]; n++)
		CHECK_STR(s->planes[n]->name, names[n]);
	CHECK_EQ(s->n_planes, n + 1);
	CHECK_STR(s->planes[n]->name, "Task Environment");
	CHECK_EQ(s->n_hostnames, 1);
	CHECK_EQ(strlen(s->hostnames[0]), i ? 3 : 1);
	CHECK_EQ(s->n_errors, 2); /* "broken", and of the plane that is too large */
	space_free(s);
	buf_release(&one);
}

/* Two planes to a file; one that no file holds is left out and told. */
static void test_further_files(void)
{
	static const char *const names[] = { "a", "b", "c", "large", "d", "e", NULL };
	struct files f = { .n = 0 };
	struct xs_sink sink = xs_sink_buf(&f.all);
	struct xs_host host = {
		.hostname = "h",
		.next_file = next_file,
		.too_large = on_too_large,
		.arg = &f,
	};
	struct xs_builder *b = xs_builder_new();
	struct buf bytes = BUF_INIT;
	struct xs_input in = { .pid = 0 };
	struct xs_counts counts;
	struct err e = { 0 };

	for (size_t i = 0; names[i]; i++) {
		xs_plane(b, (int64_t)i, names[i]);
		xs_line(b, 7, "line", 1000);
		for (int k = 0; k < (strlen(names[i]) > 1 ? 1000 : 30); k++)
			xs_event(b, "event", k, 1);
	}
	xs_error(b, "broken");
	xs_finish(b, &bytes);
	in.source = source_of(&bytes);
	host.file_bytes = 1000;
	CHECK_OK(xs_merge(&in, 1, &host, &sink, &counts, &e), e);
	f.ends[f.n++] = f.all.len;
	CHECK_EQ(f.n, 3);
	CHECK_EQ(counts.planes, 5 + 3);
	CHECK_EQ(counts.bytes, f.all.len);
	CHECK_STR(f.too_large, "large");
	check_one_file(&f, 0, (const char *const[]){ "a", "b", NULL });
	check_one_file(&f, 1, (const char *const[]){ "c", "d", NULL });
	check_one_file(&f, 2, (const char *const[]){ "e", NULL });
	f.too_large = NULL;
	f.n = 0;
	f.all.len = 0;
	host.file_bytes = 600; /* one plane each: five files, and there is leave for three */
	CHECK_EQ(xs_merge(&in, 1, &host, &sink, &counts, &e), ERR_LIMIT);
	host.file_bytes = 100;
	CHECK_EQ(xs_merge(&in, 1, &host, &sink, &counts, &e), ERR_LIMIT);
	buf_release(&f.all);
	buf_release(&bytes);
	xs_builder_free(b);
}

int main(void)
{
	test_further_files();
	struct random r = random_seeded();

	test_host_planes();
	test_device_planes();
	test_ids_stay_within_what_is_shown();
	test_process_id();
	test_known_stats();
	test_task_environment_and_texts();
	test_texts_are_bounded();
	test_hidden_hlo();
	test_no_inputs();
	test_errors_name_the_input();
	test_random_spaces(&r);
	return 0;
}
