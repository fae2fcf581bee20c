/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/annotations/shared_ring.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/status.h"
#include "agent/tracer/annotations/decoder.h"
#include "base/file.h"
#include "base/mem.h"

#define SLOTS_MIN 64
#define SLOTS_MAX 65536
#define BATCH	  1024 /* slots that are read at once */
#define READ_MAX  16384 /* slots of one ring in one reading */
/* slots of the largest record: so many slots after the head may be half written */
#define RECORD_SLOTS 5
#define PAGE	     4096
/* most slots that can be lost at once: a head that is further ahead is false */
#define LOST_MAX (1 << 30)
#define HEAD_MAX (UINT64_C(1) << 62)

struct shared_ring {
	int fd;
	int32_t pid, inner_pid;
	/* the lane to begin with: a different one each time, so that none is always the last */
	uint32_t lanes, slots, first_lane;
	uint64_t slots_at;
	uint64_t cursors[DECODER_LANES_MAX];
	uint64_t refused; /* threads that found no lane */
	struct decoder *decoder;
	struct ring_reading *reading; /* the reading under way, or NULL */
};

static void on_note(void *arg, const struct note *n)
{
	struct shared_ring *r = arg;

	r->reading->fn(r->reading->arg, n);
}

static int32_t thread_of(void *arg, int32_t tid)
{
	const struct shared_ring *r = arg;

	return r->pid == r->inner_pid ? tid : proc_thread_of(r->pid, tid);
}

static int check_header(const struct tutti_ring *h, const struct ring_process *p, struct err *e)
{
	if (h->magic != TUTTI_RING_MAGIC)
		return err_set(e, ERR_INVALID, "no ring of annotations");
	if (h->version != TUTTI_RING_VERSION)
		return err_set(e, ERR_UNSUPPORTED,
			       "a ring of version %" PRIu32 ", this agent reads %d", h->version,
			       TUTTI_RING_VERSION);
	if (!ticks_is_known(h->clock))
		return err_set(e, ERR_UNSUPPORTED, "a ring with clock %" PRIu32, h->clock);
	if (h->clock == TUTTI_CLOCK_RAW && p->is_raw_unknown)
		return err_set(e, ERR_UNSUPPORTED, "an unknown time namespace");
	if (!h->lanes || h->lanes > DECODER_LANES_MAX || h->slots < SLOTS_MIN ||
	    h->slots > SLOTS_MAX || h->slots & (h->slots - 1))
		return err_set(e, ERR_INVALID, "a ring of %" PRIu32 " lanes of %" PRIu32 " slots",
			       h->lanes, h->slots);
	if (p->inner_pid != (int32_t)h->pid)
		return err_set(e, ERR_INVALID, "the ring of process %" PRIu32, h->pid);
	return 0;
}

int shared_ring_open(struct shared_ring **out, int fd, const struct ring_process *p,
		     size_t *open_of_user, struct err *e)
{
	struct tutti_ring h;
	struct shared_ring *r;
	int rc = file_read_exact(fd, 0, &h, sizeof(h), "a ring of annotations", e);

	if (!rc)
		rc = check_header(&h, p, e);
	if (rc) {
		close(fd);
		return rc;
	}
	r = xcalloc(1, sizeof(*r));
	r->fd = fd;
	r->pid = p->pid;
	r->inner_pid = p->inner_pid;
	r->lanes = h.lanes;
	r->slots = h.slots;
	r->slots_at = (TUTTI_RING_LANES_AT + h.lanes * sizeof(struct tutti_lane) + PAGE - 1) /
		      PAGE * PAGE;
	r->decoder = decoder_new(&(struct decoder_conf){ .pid = p->pid,
							 .lanes = h.lanes,
							 .clock = h.clock,
							 .raw_ahead_ns = p->raw_ahead_ns,
							 .open_of_user = open_of_user,
							 .thread_of = thread_of,
							 .fn = on_note,
							 .arg = r });
	*out = r;
	return 0;
}

void shared_ring_free(struct shared_ring *r)
{
	if (!r)
		return;
	close(r->fd);
	decoder_free(r->decoder);
	free(r);
}

/* ---- reading a lane ---- */

static bool read_head(const struct shared_ring *r, uint32_t lane, uint64_t *head)
{
	uint64_t at = TUTTI_RING_LANES_AT + lane * sizeof(struct tutti_lane);

	return file_read_up_to(r->fd, at, head, sizeof(*head)) == (ssize_t)sizeof(*head) &&
	       *head < HEAD_MAX;
}

/* Reads slots [from, to) into `out`: at most BATCH, and not beyond the end of the lane's memory. Returns how
 * many. */
static size_t read_slots(const struct shared_ring *r, uint32_t lane, uint64_t from, uint64_t to,
			 struct tutti_slot *out)
{
	uint64_t at = from & (r->slots - 1), n = to - from;
	ssize_t got;

	if (n > BATCH)
		n = BATCH;
	if (n > r->slots - at)
		n = r->slots - at;
	got = file_read_up_to(r->fd, r->slots_at + ((uint64_t)lane * r->slots + at) * sizeof(*out),
			      out, n * sizeof(*out));
	return got < 0 ? 0 : (size_t)got / sizeof(*out);
}

/* The oldest slot that the thread, which still writes at `head`, cannot overwrite meanwhile. */
static uint64_t oldest_slot(const struct shared_ring *r, uint64_t head)
{
	return head + RECORD_SLOTS > r->slots ? head + RECORD_SLOTS - r->slots : 0;
}

static void skip_to(struct shared_ring *r, uint32_t lane, uint64_t to)
{
	uint64_t n = to - r->cursors[lane];

	r->reading->lost += n < LOST_MAX ? n : LOST_MAX;
	r->cursors[lane] = to;
	decoder_gap(r->decoder, lane);
}

/*
 * Reads slots and gives them to the decoder, unless they were overwritten meanwhile. At the end of the lane's
 * memory the slots come in two pieces. False: this lane has no more for now.
 */
static bool read_batch(struct shared_ring *r, uint32_t lane, uint64_t *head)
{
	struct tutti_slot slots[2 * BATCH];
	uint64_t from = r->cursors[lane];
	size_t n = read_slots(r, lane, from, *head, slots), used;

	if (n && from + n < *head && n < BATCH)
		n += read_slots(r, lane, from + n, *head, slots + n);
	if (!n || !read_head(r, lane, head) || *head < from + n)
		return false;
	if (oldest_slot(r, *head) > from) {
		skip_to(r, lane, oldest_slot(r, *head));
		return true;
	}
	used = decoder_add(r->decoder, lane, slots, n, r->reading->map, r->reading->now_raw_ns);
	if (!used) { /* the begin of a record whose end is not written yet */
		skip_to(r, lane, from + 1);
		return true;
	}
	r->cursors[lane] += used;
	return true;
}

static void set_thread(struct shared_ring *r, uint32_t i, const struct tutti_lane *lane)
{
	if (!decoder_has_thread(r->decoder, i))
		decoder_set_thread(r->decoder, i, lane->tid, lane->name);
}

static void read_lane(struct shared_ring *r, uint32_t i, const struct tutti_lane *lane,
		      size_t *left)
{
	uint64_t head = lane->head, start = r->cursors[i];

	if (head < start) { /* a true head never goes back */
		r->cursors[i] = head;
		decoder_gap(r->decoder, i);
		return;
	}
	if (head == start || head >= HEAD_MAX)
		return;
	set_thread(r, i, lane);
	if (oldest_slot(r, head) > start)
		skip_to(r, i, oldest_slot(r, head));
	start = r->cursors[i];
	while (r->cursors[i] < head && r->cursors[i] - start < *left) {
		if (!read_batch(r, i, &head))
			break;
	}
	*left -= r->cursors[i] - start < *left ? r->cursors[i] - start : *left;
	r->reading->has_more |= r->cursors[i] < head;
}

/* Threads take the first lane that is free: while the last one was never used, each has found one. */
static void read_refused(struct shared_ring *r, const struct tutti_lane *lanes, uint32_t n)
{
	uint64_t refused;

	if (n < r->lanes || !lanes[n - 1].head ||
	    file_read_up_to(r->fd, offsetof(struct tutti_ring, refused), &refused,
			    sizeof(refused)) != (ssize_t)sizeof(refused) ||
	    refused <= r->refused)
		return;
	r->reading->lost += refused - r->refused < LOST_MAX ? refused - r->refused : LOST_MAX;
	r->refused = refused;
}

uint64_t shared_ring_refused(const struct shared_ring *r)
{
	return r->refused;
}

void shared_ring_read(struct shared_ring *r, struct ring_reading *reading)
{
	struct tutti_lane lanes[DECODER_LANES_MAX];
	size_t most = reading->slots_left < READ_MAX ? reading->slots_left : READ_MAX, left = most;
	uint64_t damaged = decoder_damaged(r->decoder);
	ssize_t got = file_read_up_to(r->fd, TUTTI_RING_LANES_AT, lanes, r->lanes * sizeof(*lanes));
	uint32_t n = got < 0 ? 0 : (uint32_t)((size_t)got / sizeof(*lanes));

	r->reading = reading;
	read_refused(r, lanes, n);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = (r->first_lane + k) % n;

		if (!left) {
			reading->has_more = true;
			r->first_lane = i;
			break;
		}
		read_lane(r, i, &lanes[i], &left);
	}
	reading->slots_left -= most - left;
	reading->lost += decoder_damaged(r->decoder) - damaged;
	r->reading = NULL;
}

void shared_ring_end(struct shared_ring *r, const struct ring_reading *reading)
{
	struct ring_reading copy = *reading;

	r->reading = &copy;
	decoder_end(r->decoder, reading->now_raw_ns);
	r->reading = NULL;
}

void shared_ring_each_open(struct shared_ring *r, const struct ring_reading *reading)
{
	decoder_each_open(r->decoder, reading->now_raw_ns, reading->fn, reading->arg);
}
