/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/assemble.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/capture/assemble_curve.h"
#include "agent/capture/assemble_pods.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "proto/names.h"
#include "xspace/xspace.h"

#define SINK_BYTES  (64 << 10)
#define ROUNDING_NS 2 /* largest rounding error of knots, and of times between them */

/* How times of one clock, raw or wall, are translated. Each part is stamped with one of the two. */
struct time_map {
	struct curve_scale curve;
	int64_t t1_ns;
	struct xs_knot *knots; /* NULL: lines move as wholes */
	size_t n_knots;
	/* set if lines move as wholes and the window is cut at edges: the raw times of T0 and T1 */
	struct window_edges edges;
};

/* A part as an input of the merge. */
struct input {
	const struct tracer_part *part;
	const struct time_map *map;
	int fd; /* the part's file; -1 if the part is in memory */
	struct err lost; /* why that file cannot be opened */
};

/* ---- times ---- */

static struct curve_scale curve_scale(const struct clock_model *m, int64_t t0_ns, bool real)
{
	return (struct curve_scale){ .model = m, .real = real, .t0_ns = t0_ns };
}

/* The error that remains if a line is moved as a whole; 0 if it is so large that events are moved one by one
 * instead. */
static int64_t remaining_error_ns(const struct curve_scale *s, int64_t t1_ns, int64_t bound_ns)
{
	int64_t error_ns = curve_line_error_ns(s, t1_ns);

	return error_ns > bound_ns / 4 ? 0 : error_ns;
}

static int64_t clock_bound_ns(const struct clock_model *m, int64_t t0_ns, int64_t t1_ns)
{
	return clock_model_bound_over(m, clock_model_raw_of_session(m, t0_ns),
				      clock_model_raw_of_session(m, t1_ns));
}

/* What the wall clock's stamps are off in the window. */
static int64_t wall_error_ns(const struct clock_model *m, int64_t t0_ns, int64_t t1_ns)
{
	return ledger_error_ns(&m->ledger, clock_model_raw_of_session(m, t0_ns),
			       clock_model_raw_of_session(m, t1_ns));
}

int64_t assemble_bound_ns(const struct clock_model *m, int64_t t0_ns, int64_t t1_ns,
			  const struct window_edges *edges, bool has_wall_times)
{
	int64_t bound = clock_bound_ns(m, t0_ns, t1_ns), worst = 0, out;

	for (int real = 0; real <= 1; real++) {
		struct curve_scale s = curve_scale(m, t0_ns, real);
		int64_t left = remaining_error_ns(&s, t1_ns, bound);

		worst = left > worst ? left : worst;
	}
	worst += edges_distance_ns(edges, m);
	if (has_wall_times && __builtin_add_overflow(worst, wall_error_ns(m, t0_ns, t1_ns), &worst))
		return INT64_MAX;
	return __builtin_add_overflow(bound, worst + ROUNDING_NS, &out) ? INT64_MAX : out;
}

static void time_map_init(struct time_map *s, const struct assembly *a, bool real)
{
	int64_t bound = clock_bound_ns(&a->clock, a->t0_ns, a->t1_ns);
	bool at_edges = a->edges.from.session_ns && !real;

	*s = (struct time_map){ .curve = curve_scale(&a->clock, a->t0_ns, real),
				.t1_ns = a->t1_ns };
	if (curve_line_error_ns(&s->curve, a->t1_ns) > bound / 4)
		s->knots = curve_knots(&s->curve, a->t1_ns, &s->n_knots);
	else if (at_edges)
		s->edges = a->edges;
	if (at_edges && s->knots)
		s->knots = curve_cut_at_edges(&s->curve, a->t1_ns - a->t0_ns, a->edges.from.raw_ns,
					      a->edges.to.raw_ns, s->knots, &s->n_knots);
}

/* Framework profilers count from their start, but some of their lines have absolute times. */
static int64_t absolute_ns(const struct input *in, int64_t timestamp_ns)
{
	int64_t start = in->part->start_real_ns, out;

	if (in->part->base == PART_RAW || timestamp_ns > start / 2)
		return timestamp_ns;
	return __builtin_add_overflow(timestamp_ns, start, &out) ? INT64_MIN : out;
}

/* With knots, the merge itself translates to time since T0. The raw time of an edge is T0 exactly: so the times of a part
 * that begins there stay as they are in the line, and are not written anew. */
static int64_t map_line(void *arg, int64_t timestamp_ns)
{
	const struct input *in = arg;
	const struct time_map *s = in->map;
	int64_t ns = absolute_ns(in, timestamp_ns), out;

	if (s->edges.from.session_ns)
		return __builtin_sub_overflow(ns, s->edges.from.raw_ns, &out) ? INT64_MIN : out;
	return s->n_knots ? ns : curve_line_since_t0(&s->curve, s->t1_ns, ns);
}

/* ---- sources and sink ---- */

static int read_file(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct input *in = arg;

	if (in->lost.code)
		return err_set(e, in->lost.code, "%s", in->lost.msg);
	return file_read_exact(in->fd, offset, buf, len, in->part->path, e);
}

/* A part's file that cannot be opened fails here, at its first byte, like a file that cannot be read. */
static struct xs_source open_file(struct input *in)
{
	struct stat st = { .st_size = 1 };

	in->fd = open(in->part->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (in->fd < 0 || fstat(in->fd, &st))
		err_errno(&in->lost, "opening %s", in->part->path);
	return (struct xs_source){ .read = read_file, .arg = in, .size = (uint64_t)st.st_size };
}

struct file_sink {
	struct assembly *a;
	const struct xs_input *inputs;
	int fd;
	const char *path;
	uint8_t *pending;
	size_t n_pending;
	uint64_t bytes, limit;
	uint64_t file_start; /* where the current file of the session begins */
	uint32_t file_crc32c; /* of that file's bytes, without those of `pending` beyond n_summed */
	size_t n_summed;
	char hostname[NAME_FILE_BYTES];
	uint32_t crc32;
	struct known_processes processes;
};

static void sum_pending(struct file_sink *s)
{
	s->file_crc32c = crc32c(s->file_crc32c, s->pending + s->n_summed,
				s->n_pending - s->n_summed);
	s->n_summed = s->n_pending;
}

static int sink_flush(struct file_sink *s, struct err *e)
{
	int rc = file_write_all(s->fd, s->pending, s->n_pending, s->path, e);

	if (rc)
		return rc;
	s->crc32 = (uint32_t)crc32_z(s->crc32, s->pending, s->n_pending);
	sum_pending(s);
	s->n_pending = s->n_summed = 0;
	return 0;
}

static int sink_write(void *arg, const void *data, size_t len, struct err *e)
{
	struct file_sink *s = arg;
	const uint8_t *at = data;
	int rc = 0;

	s->bytes += len;
	if (s->bytes > s->limit)
		return err_set(e, ERR_FULL,
			       "the file needs more than the %" PRIu64
			       " bytes left in the spool (--spool-limit)",
			       s->limit);
	while (len && !rc) {
		size_t n = SINK_BYTES - s->n_pending;

		n = n < len ? n : len;
		memcpy(s->pending + s->n_pending, at, n);
		s->n_pending += n;
		at += n;
		len -= n;
		if (s->n_pending == SINK_BYTES)
			rc = sink_flush(s, e);
	}
	return rc;
}

static void end_file(struct file_sink *s)
{
	sum_pending(s);
	s->a->files[s->a->n_files++] = (struct capture_file){ s->bytes - s->file_start,
							      s->file_crc32c };
	s->file_start = s->bytes;
	s->file_crc32c = 0;
}

static const char *next_file(void *arg, unsigned int n)
{
	struct file_sink *s = arg;

	end_file(s);
	if (n > LIMIT_HOST_FILES)
		return NULL;
	name_of_file(s->a->host, n, s->hostname);
	return s->hostname;
}

static void plane_too_large(void *arg, size_t input, const char *plane, uint64_t bytes)
{
	const struct file_sink *s = arg;
	struct assembly *a = s->a;
	const struct input *in = s->inputs[input].rebase.arg;

	(void)bytes;
	for (size_t i = 0; i < a->n_parts; i++) {
		if (a->parts[i] == in->part)
			a->results[i] = PART_TOO_LARGE;
	}
	if (!*a->too_large_plane)
		snprintf(a->too_large_plane, sizeof(a->too_large_plane), "%s", plane);
}

/* ---- the whole ---- */

static void add_environment(void *arg, struct xs_builder *b)
{
	const struct assembly *a = ((const struct file_sink *)arg)->a;
	const struct clock_model *m = &a->clock;
	int64_t raw = clock_model_raw_of_session(m, a->t0_ns);

	xs_stat_int(b, "clock_calibrated", m->calibrated);
	xs_stat_int(b, "clock_corrected", m->calibrated);
	xs_stat_int(b, "clock_offset_ns", m->calibrated ? clock_model_raw_offset_at(m, raw) : 0);
	xs_stat_int(b, "clock_bound_ns", a->bound_ns);
	xs_stat_int(b, "clock_rtt_min_ns", m->rtt_min_ns);
	if (m->rate_known)
		xs_stat_int(b, "clock_rate_ppb", llround(m->rate * 1e9));
	xs_stat_str(b, "clock_method", m->calibrated && m->method ? m->method : "none");
	xs_stat_int(b, "clock_jitter_ns", m->jitter_ns);
	xs_stat_str(b, "clock_grade", clock_grade_name(clock_grade_of(m, a->bound_ns)));
	xs_stat_int(b, "clock_probes", m->probes);
	xs_stat_int(b, "clock_breaks", m->n_segments ? m->n_segments - 1 : 0);
	xs_stat_int(b, "clock_steps", m->ledger.steps_seen + m->steps_found);
	xs_stat_str(b, "tutti_session", a->session);
	xs_stat_str(b, "tutti_version", TUTTI_VERSION);
	assemble_pods(a->pods, b);
}

static size_t add_process(void *arg, int64_t pid, struct xs_known out[XS_KNOWN_MOST])
{
	struct file_sink *s = arg;

	return assemble_process(&s->processes, s->a->pods, pid, out);
}

static void set_input(const struct assembly *a, size_t i, const struct time_map maps[2],
		      struct input *in, struct xs_input *out)
{
	const struct tracer_part *part = a->parts[i];

	*in = (struct input){
		.part = part,
		.map = &maps[part->base == PART_REAL],
		.fd = -1,
	};
	*out = (struct xs_input){
		.source = xs_source_memory(part->bytes.data, part->bytes.len),
		.rebase = { .map = map_line,
			    .arg = in,
			    .knots = in->map->knots,
			    .n_knots = in->map->n_knots,
			    .window_ns = a->t1_ns - a->t0_ns,
			    .cut_ns = in->map->edges.to.raw_ns - in->map->edges.from.raw_ns },
		.pid = part->pid,
		.label = part->label,
	};
	if (part->path)
		out->source = open_file(in);
}

static int merge(struct file_sink *file, size_t n, struct xs_counts *counts, struct err *e)
{
	const struct assembly *a = file->a;
	struct xs_sink sink = { .write = sink_write, .arg = file };
	struct xs_host host = {
		.hostname = a->host,
		.profile_start_ns = (uint64_t)a->t0_ns,
		.profile_stop_ns = (uint64_t)a->t1_ns,
		.profile_options = a->profile_options_len ? a->profile_options : NULL,
		.profile_options_len = a->profile_options_len,
		.environment = add_environment,
		.process = add_process,
		.arg = file,
		.warnings = a->warnings,
		.file_bytes = a->file_bytes,
		.next_file = next_file,
		.too_large = plane_too_large,
	};

	return xs_merge(file->inputs, n, &host, &sink, counts, e);
}

static int write_file(struct assembly *a, const struct xs_input *inputs, size_t n, struct err *e)
{
	struct file_sink file = {
		.a = a,
		.inputs = inputs,
		.path = a->path,
		.limit = a->limit_bytes,
	};
	struct xs_counts counts = { 0 };
	int rc;

	file.fd = open(a->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file.fd < 0)
		return err_errno(e, "making %s", a->path);
	file.pending = xmalloc(SINK_BYTES);
	a->n_files = 0;
	rc = merge(&file, n, &counts, e);
	if (!rc) {
		end_file(&file);
		rc = sink_flush(&file, e);
	}
	if (close(file.fd) && !rc)
		rc = err_errno(e, "writing %s", a->path);
	free(file.pending);
	known_processes_release(&file.processes);
	a->events = counts.events;
	a->bytes = file.bytes;
	a->crc32 = file.crc32;
	return rc;
}

/* ---- parts that are left out ---- */

/* The inputs of the merge, and the warnings of its file. */
struct merge_set {
	struct assembly *a;
	struct xs_input *inputs;
	size_t n;
	const char **warnings; /* NULL-terminated; the first n_given are borrowed */
	size_t n_given, n_warnings;
	bool tried; /* each input has been merged alone once, to find the bad ones */
};

static int discard(void *arg, const void *data, size_t len, struct err *e)
{
	(void)arg;
	(void)data;
	(void)len;
	(void)e;
	return 0;
}

/* Merges one input alone. Returns 0 if that works: then this input is not the cause of the failure. */
static int try_input(const struct assembly *a, const struct xs_input *input, struct err *e)
{
	const struct xs_sink sink = { .write = discard };
	const struct xs_host host = { .hostname = a->host };

	return xs_merge(input, 1, &host, &sink, NULL, e);
}

static uint64_t input_bytes(const struct xs_input *input)
{
	return input->source.size;
}

static bool is_of_process(const struct xs_input *input)
{
	return input->pid != 0;
}

static void leave_out(struct merge_set *m, size_t i, enum part_result result, const char *why)
{
	struct assembly *a = m->a;
	const struct input *in = m->inputs[i].rebase.arg;

	for (size_t n = 0; n < a->n_parts; n++) {
		if (a->parts[n] == in->part)
			a->results[n] = result;
	}
	m->warnings[m->n_warnings++] = xasprintf("%s: left out: %s", in->part->label, why);
	memmove(&m->inputs[i], &m->inputs[i + 1], (m->n - i - 1) * sizeof(*m->inputs));
	m->n--;
}

static size_t leave_out_bad(struct merge_set *m)
{
	size_t before = m->n;

	if (m->tried)
		return 0;
	m->tried = true;
	for (size_t i = m->n; i-- > 0;) {
		struct err why;
		int rc = try_input(m->a, &m->inputs[i], &why);

		if (rc == ERR_INVALID) {
			err_prefix(&why, "it is not an XSpace");
			leave_out(m, i, PART_INVALID, why.msg);
		} else if (rc == ERR_LIMIT) {
			leave_out(m, i, PART_BEYOND_LIMITS, why.msg);
		} else if (rc) {
			leave_out(m, i, PART_UNREADABLE, why.msg);
		}
	}
	return before - m->n;
}

/* The largest part of a process, not one of Tutti's own. */
static size_t leave_out_largest(struct merge_set *m, int rc, const struct err *e)
{
	size_t largest = m->n;

	for (size_t i = 0; i < m->n; i++) {
		if (is_of_process(&m->inputs[i]) &&
		    (largest == m->n ||
		     input_bytes(&m->inputs[i]) > input_bytes(&m->inputs[largest])))
			largest = i;
	}
	if (largest == m->n)
		return 0;
	leave_out(m, largest, rc == ERR_FULL ? PART_NO_SPACE : PART_BEYOND_LIMITS, e->msg);
	return 1;
}

/* Parts come from untrusted processes, and their files may vanish. A part that cannot be read or merged, or
 * is too large, is left out; the other parts are merged. */
static int write_without_bad(struct assembly *a, struct xs_input *inputs, int rc, struct err *e)
{
	const char *const *given = a->warnings;
	struct merge_set m = { .a = a, .inputs = inputs, .n = a->n_parts };

	while (given[m.n_given])
		m.n_given++;
	m.n_warnings = m.n_given;
	m.warnings = xcalloc(m.n_given + a->n_parts + 1, sizeof(*m.warnings));
	for (size_t i = 0; i < m.n_given; i++)
		m.warnings[i] = given[i];
	a->warnings = m.warnings;
	while (rc) {
		size_t left_out = rc == ERR_FULL ? 0 : leave_out_bad(&m);

		if (!left_out && (rc == ERR_LIMIT || rc == ERR_FULL))
			left_out = leave_out_largest(&m, rc, e);
		if (!left_out)
			break;
		unlink(a->path);
		rc = write_file(a, inputs, m.n, e);
	}
	a->warnings = given;
	for (size_t i = m.n_given; i < m.n_warnings; i++)
		free((char *)m.warnings[i]);
	free(m.warnings);
	return rc;
}

int assemble(struct assembly *a, struct err *e)
{
	struct input *ins = xcalloc(a->n_parts + 1, sizeof(*ins));
	struct xs_input *inputs = xcalloc(a->n_parts + 1, sizeof(*inputs));
	struct time_map maps[2];
	int rc;

	time_map_init(&maps[0], a, false);
	time_map_init(&maps[1], a, true);
	for (size_t i = 0; i < a->n_parts; i++)
		set_input(a, i, maps, &ins[i], &inputs[i]);
	rc = write_file(a, inputs, a->n_parts, e);
	if (rc)
		rc = write_without_bad(a, inputs, rc, e);
	if (rc)
		unlink(a->path);
	for (size_t i = 0; i < a->n_parts; i++) {
		if (ins[i].fd >= 0)
			close(ins[i].fd);
	}
	free(maps[0].knots);
	free(maps[1].knots);
	free(inputs);
	free(ins);
	return rc;
}
