/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer "annotations": what programs write with include/tutti/tutti.h, the Python package or NVTX. A
 * worker reads the rings of all processes ten times a second, so rings may be small and processes may be
 * killed. The annotations are kept in a ring of the agent, and training steps among them also go to agent/marks.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/marks/marks.h"
#include "agent/tracer/annotations/plane.h"
#include "agent/tracer/annotations/rings.h"
#include "agent/tracer/build_job.h"
#include "agent/tracer/ring_run.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/datagram.h"

#define READ_NS (100 * NS_PER_MS)
#define STOP_NS \
	NS_PER_S /* a reading that comes so long after the last one: the agent did not run */
#define STEPS_MAX     3 /* of annotations_limit() */
#define READ_AGAIN_NS (20 * NS_PER_MS) /* time to the next reading if something was left to read */
/* slots of one reading: one turn of the loop handles their annotations */
#define READ_SLOTS 32768
/* how many readings a run waits for at most, until all that was written before the window's end has been read */
#define GATHER_READS 32
#define LATE_NS	     (601 * NS_PER_S) /* the oldest that the decoder accepts */
#define FILE_BYTES   (64U << 20) /* of the ring's file: programs must not fill the spool */

TRACER_DECLARE(annotations);

#define SENT_MAX \
	RINGS_MAX /* rings that came since the last reading; others are found below /proc, if their process lives */

struct annotations_conf {
	int64_t annotations_look_ns;
	char *annotations_socket;
};

static const struct conf_field conf_fields[] = {
	CONF_RANGE(struct annotations_conf, annotations_look_ns, "1s", 1e7, 6e10,
		   "how often new processes are looked for"),
	CONF(struct annotations_conf, annotations_socket, "",
	     "path of the socket to which programs with TUTTI_ANNOTATIONS_SOCKET=PATH send their "
	     "rings, in a folder that only their user can enter; empty: none"),
	{ 0 }
};

/* A ring as its process sent it. */
struct sent_ring {
	int fd;
	int32_t pid;
	uint32_t uid;
};

/* A reading of all rings. While it is under way, only the worker uses this. */
struct reader {
	struct tracer_annotations *owner; /* loop's thread only; NULL when the tracer is gone */
	struct rings *rings;
	struct ticks_map ticks;
	/* Given. */
	bool look, look_at_all, want_open;
	struct sent_ring sent[SENT_MAX];
	size_t n_sent;
	/* The result. */
	struct buf notes, open; /* rows of notes */
	uint64_t lost;
	int64_t at_raw_ns;
	bool has_more;
};

/* A run that waits for a reading that began after its window. */
struct waiting_run {
	struct waiting_run *next;
	struct tracer_run *run;
	int reads_left;
	bool begun; /* the reading under way began after the window */
};

struct tracer_annotations {
	struct tracer base;
	struct loop *loop;
	struct marks *marks; /* the agent's */
	struct loop_timer timer;
	/* time between two searches for rings, and when the next one is due */
	int64_t look_ns, look_mono_ns;
	int64_t configured_look_ns;
	struct datagram *socket; /* NULL = none */
	struct err socket_error; /* why it is not there */
	struct sent_ring sent[SENT_MAX]; /* since the reading under way began */
	size_t n_sent;
	struct reader *reader;
	bool reading, look_at_all;
	struct ring *ring; /* of struct note */
	struct waiting_run *waiting;
	size_t n_rings; /* of the last reading */
	int64_t read_raw_ns; /* when that was */
	size_t left_out; /* rings that are not read, since there are too many */
	size_t crowded; /* rings that have threads without a lane */
	bool incomplete;
};

struct snapshot {
	struct plane_notes notes;
	/* `cut`: the records of the window; `later`: records after the window, for annotations that began in the window
	 * and ended after it */
	struct ring_cut *cut, *later;
	struct buf open;
};

static void begin_reading(struct tracer_annotations *t);

static struct tracer_annotations *to_annotations(const struct tracer *t)
{
	assert(t->ops == &tracer_annotations_ops);
	return (struct tracer_annotations *)t;
}

/* ---- reading, on a worker ---- */

static void on_note(void *arg, const struct note *n)
{
	note_row_add(&((struct reader *)arg)->notes, n);
}

static void on_open_note(void *arg, const struct note *n)
{
	note_row_add(&((struct reader *)arg)->open, n);
}

static void read_rings(void *arg)
{
	struct reader *r = arg;
	struct ring_reading reading = {
		.map = &r->ticks, .slots_left = READ_SLOTS, .fn = on_note, .arg = r
	};
	uint64_t n_refused = 0; /* each has a record at least */

	for (size_t i = 0; i < r->n_sent; i++)
		n_refused += !rings_add(r->rings, r->sent[i].fd, r->sent[i].pid, r->sent[i].uid);
	r->n_sent = 0;
	if (r->look)
		rings_look(r->rings, now_mono_ns(), r->look_at_all);
	ticks_map_read(&r->ticks);
	reading.now_raw_ns = r->at_raw_ns = now_raw_ns();
	rings_read(r->rings, &reading);
	r->lost = reading.lost + n_refused;
	r->has_more = reading.has_more;
	if (r->want_open) {
		reading.fn = on_open_note;
		rings_each_open(r->rings, &reading);
	}
}

static struct reader *reader_new(struct tracer_annotations *owner)
{
	struct reader *r = xcalloc(1, sizeof(*r));

	r->owner = owner;
	r->rings = rings_new();
	ticks_map_read(&r->ticks);
	return r;
}

static void reader_free(struct reader *r)
{
	rings_free(r->rings);
	buf_release(&r->notes);
	buf_release(&r->open);
	free(r);
}

/* ---- the result of a reading ---- */

static void keep_note(void *arg, const struct note *n)
{
	struct tracer_annotations *t = arg;

	if (n->kind == NOTE_STEP_BEGIN)
		marks_add_step(t->marks, &(struct step_mark){ .raw_ns = n->begin_raw_ns,
							      .step = (int64_t)n->value,
							      .pid = n->pid });
	else
		ring_add(t->ring, n->end_raw_ns, n, NOTE_BYTES(n));
}

static void snapshot_free(void *arg)
{
	struct snapshot *s = arg;

	plane_notes_release(&s->notes);
	ring_cut_free(s->cut);
	ring_cut_free(s->later);
	buf_release(&s->open);
	free(s);
}

static bool add_record(void *arg, const struct ring_record *record)
{
	plane_notes_add(arg, record->data);
	return true;
}

static void add_open_note(void *arg, const struct note *n)
{
	plane_notes_add(arg, n);
}

static uint64_t build(void *arg, struct build_parts *parts)
{
	struct snapshot *s = arg;
	uint64_t unread = ring_cut_each(s->cut, add_record, &s->notes) +
			  ring_cut_each(s->later, add_record, &s->notes);

	note_row_each(&s->open, add_open_note, &s->notes);
	planes_build(&s->notes, parts);
	return unread;
}

/* "" if all is read. */
static void describe_left_out(const struct tracer_annotations *t, char *out, size_t size)
{
	*out = '\0';
	if (t->left_out)
		snprintf(out, size,
			 "%zu rings of annotations are not read: there are more than %d, %d of a "
			 "user "
			 "or %d of a process",
			 t->left_out, RINGS_MAX, RINGS_PER_USER_MAX, RINGS_PER_PROCESS_MAX);
	else if (t->crowded)
		snprintf(out, size,
			 "%zu rings of annotations have fewer lanes than threads wanted: those "
			 "that came "
			 "last are not recorded",
			 t->crowded);
}

static void note_left_out(const struct tracer_annotations *t, struct tracer_run *run)
{
	size_t used = strlen(run->detail);
	char text[200];

	describe_left_out(t, text, sizeof(text));
	if (*text)
		snprintf(run->detail + used, sizeof(run->detail) - used, "%s%s", used ? "; " : "",
			 text);
}

static void cut_and_build(struct tracer_annotations *t, struct tracer_run *run)
{
	struct snapshot *s = xcalloc(1, sizeof(*s));
	bool is_small;

	s->notes.t0_raw_ns = run->t0_raw_ns;
	s->notes.t1_raw_ns = run->t1_raw_ns;
	s->later = ring_cut_new(t->ring, run->t1_raw_ns, INT64_MAX / 4);
	s->cut = ring_run_cut(t->ring, run, "annotations", 0);
	note_left_out(t, run);
	buf_add(&s->open, t->reader->open.data, t->reader->open.len);
	is_small = ring_cut_bytes(s->cut) <= BUILD_SMALL_BYTES &&
		   ring_cut_bytes(s->later) <= BUILD_SMALL_BYTES &&
		   s->open.len <= BUILD_SMALL_BYTES;
	build_job_start(t->loop, run,
			&(struct build_job){ .build_each = build,
					     .free = snapshot_free,
					     .snapshot = s,
					     .is_small = is_small,
					     .is_empty = ring_cut_is_empty(s->cut) &&
							 ring_cut_is_empty(s->later) &&
							 !s->open.len });
}

/* Builds the runs whose last reading this was. */
static void end_waits(struct tracer_annotations *t, bool has_more)
{
	struct waiting_run **at = &t->waiting;

	while (*at) {
		struct waiting_run *w = *at;

		if (!w->begun || (has_more && --w->reads_left > 0)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		cut_and_build(t, w->run);
		free(w);
		at = &t->waiting; /* done() may have changed the list */
	}
}

static void on_reading_due(void *arg)
{
	begin_reading(arg);
}

/* What an agent lost that did not run was made since its last reading, and is missing there. */
static void note_loss(struct tracer_annotations *t, const struct reader *r)
{
	bool was_away = t->n_rings && r->at_raw_ns - t->read_raw_ns > STOP_NS;

	if (r->lost)
		ring_add_gap(t->ring, was_away ? t->read_raw_ns : r->at_raw_ns, r->at_raw_ns,
			     r->lost);
	t->read_raw_ns = r->at_raw_ns;
}

static void on_read(void *arg)
{
	struct reader *r = arg;
	struct tracer_annotations *t = r->owner;

	if (!t) {
		reader_free(r);
		return;
	}
	t->reading = false;
	note_row_each(&r->notes, keep_note, t);
	note_loss(t, r);
	t->n_rings = rings_count(r->rings);
	t->left_out = rings_left_out(r->rings);
	t->crowded = rings_crowded(r->rings);
	t->incomplete = rings_is_incomplete(r->rings);
	end_waits(t, r->has_more);
	if (t->waiting || t->look_at_all || t->n_sent)
		begin_reading(t);
	else
		loop_timer_each(t->loop, &t->timer,
				r->has_more  ? READ_AGAIN_NS
				: t->n_rings ? READ_NS
					     : t->look_ns,
				on_reading_due, t);
}

static void begin_reading(struct tracer_annotations *t)
{
	struct reader *r = t->reader;
	int64_t now_ns = now_mono_ns();

	if (t->reading)
		return;
	loop_timer_cancel(t->loop, &t->timer);
	r->look_at_all = t->look_at_all;
	r->look = r->look_at_all || now_ns >= t->look_mono_ns;
	if (r->look)
		t->look_mono_ns = now_ns + t->look_ns;
	r->want_open = t->waiting != NULL;
	memcpy(r->sent, t->sent, t->n_sent * sizeof(*t->sent));
	r->n_sent = t->n_sent;
	t->n_sent = 0;
	for (struct waiting_run *w = t->waiting; w; w = w->next)
		w->begun = true;
	buf_reset(&r->notes);
	buf_reset(&r->open);
	t->look_at_all = false;
	t->reading = true;
	loop_work(t->loop, read_rings, on_read, r);
}

/* ---- rings that are sent ---- */

static void on_ring_sent(void *arg, const void *data, size_t len, const struct datagram_from *from)
{
	struct tracer_annotations *t = arg;

	(void)data;
	(void)len;
	if (from->fd < 0)
		return;
	if (t->n_sent == SENT_MAX) {
		close(from->fd);
		ring_add_loss(t->ring, now_raw_ns(), 1);
		return;
	}
	t->sent[t->n_sent++] =
		(struct sent_ring){ .fd = from->fd, .pid = (int32_t)from->pid, .uid = from->uid };
	begin_reading(t);
}

static void listen_for_rings(struct tracer_annotations *t, const char *path)
{
	if (!path || !*path)
		return;
	if (!datagram_listen(&t->socket, t->loop, path, on_ring_sent, t, &t->socket_error))
		datagram_accept_files(t->socket);
}

/* ---- the table ---- */

static int annotations_open(struct tracer **out, const struct tracer_env *env, struct err *e)
{
	const struct annotations_conf *conf = env->conf;
	struct tracer_annotations *t = xcalloc(1, sizeof(*t));

	(void)e;
	t->base.ops = &tracer_annotations_ops;
	t->loop = env->loop;
	t->marks = env->marks;
	t->look_ns = t->configured_look_ns = conf->annotations_look_ns;
	t->ring = ring_new(&(struct ring_conf){ .limits = env->ring,
						.file_bytes = FILE_BYTES,
						.late_ns = LATE_NS,
						.begin_raw_ns = now_raw_ns() });
	t->reader = reader_new(t);
	t->look_at_all = true;
	listen_for_rings(t, conf->annotations_socket);
	begin_reading(t);
	*out = &t->base;
	return 0;
}

static void annotations_state(const struct tracer *tracer, struct tracer_state *out)
{
	const struct tracer_annotations *t = to_annotations(tracer);

	*out = (struct tracer_state){ .health = TRACER_OK };
	if (t->socket_error.code) {
		out->health = TRACER_DEGRADED;
		snprintf(out->reason, sizeof(out->reason), "--annotations-socket: %.200s",
			 t->socket_error.msg);
	} else if (t->incomplete) {
		out->health = TRACER_DEGRADED;
		out->errno_value = EACCES;
		snprintf(out->reason, sizeof(out->reason),
			 "programs of other users cannot be found: grant CAP_SYS_PTRACE and "
			 "CAP_DAC_READ_SEARCH");
	} else if (t->left_out || t->crowded) {
		out->health = TRACER_DEGRADED;
		describe_left_out(t, out->reason, sizeof(out->reason));
	}
}

static int64_t annotations_begin(const struct tracer *t)
{
	return ring_begin(to_annotations(t)->ring);
}

static int annotations_arm(struct tracer *tracer, struct tracer_run *run, struct err *e)
{
	struct tracer_annotations *t = to_annotations(tracer);

	(void)e;
	ring_run_arm(t->ring, run);
	t->look_at_all = true;
	/* A window that is over is gathered at once, and gather() begins a reading. */
	if (run->t1_raw_ns > now_raw_ns())
		begin_reading(t);
	return 0;
}

static void annotations_gather(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_annotations *t = to_annotations(tracer);
	struct waiting_run *w = xcalloc(1, sizeof(*w));

	*w = (struct waiting_run){ .next = t->waiting, .run = run, .reads_left = GATHER_READS };
	t->waiting = w;
	t->look_mono_ns = 0; /* searches all processes: some may have begun within the window */
	begin_reading(t);
}

static void annotations_cancel(struct tracer *tracer, struct tracer_run *run)
{
	struct tracer_annotations *t = to_annotations(tracer);
	struct waiting_run **at = &t->waiting, *w;

	ring_run_cancel(t->ring, run);
	while (*at && (*at)->run != run)
		at = &(*at)->next;
	w = *at;
	if (!w) {
		build_job_cancel(run);
		return;
	}
	*at = w->next;
	free(w);
}

/* Recording costs the programs, not the agent; the agent's cost is the search for new processes. So each step doubles
 * the time between searches. */
static bool annotations_limit(struct tracer *tracer, unsigned int step)
{
	struct tracer_annotations *t = to_annotations(tracer);

	if (step > STEPS_MAX)
		return false;
	t->look_ns = t->configured_look_ns << step;
	return true;
}

static void annotations_free(struct tracer *tracer)
{
	struct tracer_annotations *t = to_annotations(tracer);

	loop_timer_cancel(t->loop, &t->timer);
	datagram_free(t->socket);
	for (size_t i = 0; i < t->n_sent; i++)
		close(t->sent[i].fd);
	rings_stop_looking(t->reader->rings);
	if (t->reading)
		t->reader->owner = NULL; /* on_read() frees it */
	else
		reader_free(t->reader);
	ring_free(t->ring);
	free(t);
}

const struct tracer_ops tracer_annotations_ops = {
	.name = "annotations",
	.host_level = 1,
	.conf = conf_fields,
	.conf_size = sizeof(struct annotations_conf),
	.open = annotations_open,
	.state = annotations_state,
	.begin_raw_ns = annotations_begin,
	.arm = annotations_arm,
	.gather = annotations_gather,
	.cancel = annotations_cancel,
	.limit = annotations_limit,
	.free = annotations_free,
};
