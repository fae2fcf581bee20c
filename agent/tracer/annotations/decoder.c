/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/annotations/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"

#define AGE_NS	  (600 * NS_PER_S)
#define FUTURE_NS NS_PER_S
#define STEP_MAX  INT64_C(1000000000000000)

/* A scope whose end has not come. */
struct open_scope {
	struct open_scope
		*outer; /* the next one around it that is open, of a smaller depth; or NULL */
	size_t depth;
	uint64_t ticks;
	struct note note;
};

struct lane {
	int32_t tid;
	char thread[NOTE_THREAD_BYTES];
	bool has_thread;
	/* slots are missing since the last record: ends of open scopes may be among them */
	bool has_gap;
	int64_t last_raw_ns; /* of the last record */
	struct open_scope *innermost; /* that is open; NULL = none */
};

/* A range with only one end so far. Its ends may be from two threads, whose records come in any order. */
struct range {
	uint64_t number;
	bool has_begin, has_end;
	struct note note;
};

struct decoder {
	struct decoder_conf conf;
	struct lane *lanes[DECODER_LANES_MAX]; /* NULL until it has records */
	struct range *ranges; /* DECODER_RANGES_MAX, in a circle; NULL until the first */
	size_t range_at;
	size_t n_open;
	uint64_t damaged;
};

/* A record: its slots put together. */
struct record {
	struct tutti_slot head;
	int64_t raw_ns;
	char text[TUTTI_TEXT_MAX + 1];
};

struct decoder *decoder_new(const struct decoder_conf *conf)
{
	struct decoder *d = xcalloc(1, sizeof(*d));

	d->conf = *conf;
	return d;
}

static void drop_innermost(struct decoder *d, struct lane *lane)
{
	struct open_scope *s = lane->innermost;

	lane->innermost = s->outer;
	free(s);
	d->n_open--;
	--*d->conf.open_of_user;
}

static void drop_range(struct decoder *d, struct range *at)
{
	if (at->has_begin || at->has_end)
		--*d->conf.open_of_user;
	*at = (struct range){ 0 };
}

void decoder_free(struct decoder *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < DECODER_LANES_MAX; i++) {
		while (d->lanes[i] && d->lanes[i]->innermost)
			drop_innermost(d, d->lanes[i]);
		free(d->lanes[i]);
	}
	for (size_t i = 0; d->ranges && i < DECODER_RANGES_MAX; i++)
		drop_range(d, &d->ranges[i]);
	free(d->ranges);
	free(d);
}

uint64_t decoder_damaged(const struct decoder *d)
{
	return d->damaged;
}

static struct lane *lane_of(struct decoder *d, uint32_t i)
{
	if (!d->lanes[i])
		d->lanes[i] = xcalloc(1, sizeof(**d->lanes));
	return d->lanes[i];
}

/* ---- annotations ---- */

static void set_note(const struct decoder *d, const struct lane *lane, const struct record *r,
		     enum note_kind kind, struct note *n)
{
	n->begin_raw_ns = n->end_raw_ns = r->raw_ns;
	n->value = r->head.value;
	n->pid = d->conf.pid;
	n->tid = lane->tid;
	n->kind = (uint8_t)kind;
	n->type = r->head.type <= TUTTI_TYPE_DOUBLE ? r->head.type : TUTTI_TYPE_NONE;
	n->unfinished = 0;
	memcpy(n->thread, lane->thread, sizeof(n->thread));
	n->text_len = (uint8_t)clean_text(n->text, sizeof(n->text), r->text, r->head.text_len);
}

static void emit(const struct decoder *d, const struct note *n)
{
	d->conf.fn(d->conf.arg, n);
}

static void emit_now(const struct decoder *d, const struct lane *lane, const struct record *r,
		     enum note_kind kind)
{
	struct note n;

	set_note(d, lane, r, kind, &n);
	emit(d, &n);
}

/* ---- scopes ---- */

static void end_innermost(struct decoder *d, struct lane *lane, int64_t raw_ns, bool unfinished)
{
	struct note *n = &lane->innermost->note;

	if (raw_ns >= n->begin_raw_ns) {
		n->end_raw_ns = raw_ns;
		n->unfinished = unfinished;
		emit(d, n);
	} else {
		d->damaged++;
	}
	drop_innermost(d, lane);
}

/* Ends the scopes whose end is missing: they ended in the gap, or where the next one begins. */
static void end_missing(struct decoder *d, struct lane *lane, size_t from_depth, int64_t raw_ns)
{
	int64_t end_raw_ns = lane->has_gap && lane->last_raw_ns < raw_ns ? lane->last_raw_ns
									 : raw_ns;

	while (lane->innermost && lane->innermost->depth >= from_depth) {
		if (lane->innermost->note.begin_raw_ns > end_raw_ns)
			end_raw_ns = raw_ns;
		end_innermost(d, lane, end_raw_ns, true);
	}
}

static void on_begin(struct decoder *d, struct lane *lane, const struct record *r)
{
	size_t depth = r->head.depth;
	bool is_step = r->head.kind == TUTTI_KIND_STEP && r->head.value <= STEP_MAX;
	struct open_scope *s;

	if (depth >= TUTTI_DEPTH_MAX) {
		d->damaged++;
		return;
	}
	end_missing(d, lane, depth, r->raw_ns);
	if (is_step)
		emit_now(d, lane, r, NOTE_STEP_BEGIN);
	if (d->n_open == DECODER_OPEN_MAX || *d->conf.open_of_user >= DECODER_OPEN_OF_USER_MAX) {
		d->damaged++;
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->outer = lane->innermost;
	s->depth = depth;
	s->ticks = r->head.ticks;
	set_note(d, lane, r, is_step ? NOTE_STEP : NOTE_SCOPE, &s->note);
	lane->innermost = s;
	d->n_open++;
	++*d->conf.open_of_user;
}

/* Matches an end with its scope by the ticks of the begin, so the end of a scope that was not read matches
 * nothing. */
static void on_end(struct decoder *d, struct lane *lane, const struct record *r)
{
	size_t depth = r->head.depth;

	if (depth >= TUTTI_DEPTH_MAX) {
		d->damaged++;
		return;
	}
	end_missing(d, lane, depth + 1, r->raw_ns);
	if (!lane->innermost || lane->innermost->depth < depth)
		return;
	if (lane->innermost->ticks == r->head.value)
		end_innermost(d, lane, r->raw_ns, false);
	else
		end_missing(d, lane, depth, r->raw_ns);
}

/* ---- ranges ---- */

static struct range *find_range(struct decoder *d, uint64_t number)
{
	for (size_t i = 0; d->ranges && i < DECODER_RANGES_MAX; i++) {
		struct range *at = &d->ranges[i];

		if ((at->has_begin || at->has_end) && at->number == number)
			return at;
	}
	return NULL;
}

/* Replaces the oldest one; NULL if the user has too much that is open. */
static struct range *add_range(struct decoder *d, uint64_t number)
{
	struct range *at;

	if (!d->ranges)
		d->ranges = xcalloc(DECODER_RANGES_MAX, sizeof(*d->ranges));
	at = &d->ranges[d->range_at++ % DECODER_RANGES_MAX];
	d->damaged += at->has_begin;
	drop_range(d, at);
	if (*d->conf.open_of_user >= DECODER_OPEN_OF_USER_MAX)
		return NULL;
	at->number = number;
	++*d->conf.open_of_user;
	return at;
}

static void on_range(struct decoder *d, struct lane *lane, const struct record *r)
{
	bool is_begin = r->head.kind == TUTTI_KIND_RANGE_BEGIN;
	struct range *at = find_range(d, r->head.value);

	if (!at || (is_begin ? at->has_begin : at->has_end))
		at = add_range(d, r->head.value);
	if (!at) {
		d->damaged++;
		return;
	}
	if (is_begin) {
		int64_t end_raw_ns = at->note.end_raw_ns;

		set_note(d, lane, r, NOTE_RANGE, &at->note);
		at->note.type = TUTTI_TYPE_NONE;
		at->note.end_raw_ns = end_raw_ns;
		at->has_begin = true;
	} else {
		at->note.end_raw_ns = r->raw_ns;
		at->has_end = true;
	}
	if (!at->has_begin || !at->has_end)
		return;
	if (at->note.end_raw_ns >= at->note.begin_raw_ns)
		emit(d, &at->note);
	else
		d->damaged++;
	drop_range(d, at);
}

/* ---- records ---- */

void decoder_set_thread(struct decoder *d, uint32_t i, uint32_t tid, const char name[16])
{
	struct lane *lane = lane_of(d, i);

	lane->has_thread = true;
	lane->tid = tid <= INT32_MAX ? d->conf.thread_of(d->conf.arg, (int32_t)tid) : 0;
	clean_text(lane->thread, sizeof(lane->thread), name, strnlen(name, NOTE_THREAD_BYTES));
}

bool decoder_has_thread(const struct decoder *d, uint32_t i)
{
	return d->lanes[i] && d->lanes[i]->has_thread;
}

static void on_record(struct decoder *d, uint32_t i, const struct record *r)
{
	struct lane *lane = lane_of(d, i);

	switch (r->head.kind) {
	case TUTTI_KIND_THREAD:
		end_missing(d, lane, 0, r->raw_ns);
		decoder_set_thread(d, i, (uint32_t)r->head.value, r->text);
		break;
	case TUTTI_KIND_BEGIN:
	case TUTTI_KIND_STEP:
		on_begin(d, lane, r);
		break;
	case TUTTI_KIND_END:
		on_end(d, lane, r);
		break;
	case TUTTI_KIND_INSTANT:
		emit_now(d, lane, r, NOTE_INSTANT);
		break;
	case TUTTI_KIND_COUNTER:
		emit_now(d, lane, r, NOTE_COUNTER);
		break;
	default: /* a range */
		on_range(d, lane, r);
	}
	if (r->head.kind <= TUTTI_KIND_STEP)
		lane->has_gap = false;
	lane->last_raw_ns = r->raw_ns;
}

/* How many slots the record has that begins here; 0 if no record begins here. */
static size_t record_slots(const struct tutti_slot *s)
{
	size_t more = s->text_len > TUTTI_TEXT_HERE ? s->text_len - TUTTI_TEXT_HERE : 0;

	if (s->kind < TUTTI_KIND_THREAD || s->kind > TUTTI_KIND_RANGE_END ||
	    s->text_len > TUTTI_TEXT_MAX)
		return 0;
	return 1 + (more + TUTTI_TEXT_NEXT - 1) / TUTTI_TEXT_NEXT;
}

/* False if the further slots are not those of a text. */
static bool put_together(const struct tutti_slot *slots, size_t n, struct record *out)
{
	size_t at = TUTTI_TEXT_HERE;

	memcpy(&out->head, slots, sizeof(out->head));
	memcpy(out->text, slots->text, TUTTI_TEXT_HERE);
	for (size_t i = 1; i < n; i++) {
		struct tutti_slot_text next;
		size_t left = sizeof(out->text) - at;

		memcpy(&next, &slots[i], sizeof(next));
		if (next.kind != TUTTI_KIND_TEXT)
			return false;
		memcpy(out->text + at, next.text, left < TUTTI_TEXT_NEXT ? left : TUTTI_TEXT_NEXT);
		at += TUTTI_TEXT_NEXT;
	}
	out->text[out->head.text_len] = '\0';
	return true;
}

size_t decoder_add(struct decoder *d, uint32_t lane, const struct tutti_slot *slots, size_t n,
		   const struct ticks_map *map, int64_t now_raw_ns)
{
	struct record r;
	size_t i = 0;

	while (i < n) {
		size_t need = record_slots(&slots[i]);

		if (i + need > n)
			break;
		if (!need || !put_together(&slots[i], need, &r)) {
			d->damaged++;
			i++;
			continue;
		}
		r.raw_ns = ticks_to_raw(map, d->conf.clock, r.head.ticks);
		if (d->conf.clock == TUTTI_CLOCK_RAW)
			r.raw_ns -= d->conf.raw_ahead_ns;
		if (r.raw_ns < now_raw_ns - AGE_NS || r.raw_ns > now_raw_ns + FUTURE_NS)
			d->damaged++;
		else
			on_record(d, lane, &r);
		i += need;
	}
	return i;
}

void decoder_gap(struct decoder *d, uint32_t i)
{
	lane_of(d, i)->has_gap = true;
}

/* ---- what is open ---- */

void decoder_end(struct decoder *d, int64_t now_raw_ns)
{
	for (size_t i = 0; i < DECODER_LANES_MAX; i++) {
		if (d->lanes[i])
			end_missing(d, d->lanes[i], 0, now_raw_ns);
	}
	for (size_t i = 0; d->ranges && i < DECODER_RANGES_MAX; i++) {
		struct range *at = &d->ranges[i];

		if (at->has_begin && at->note.begin_raw_ns <= now_raw_ns) {
			at->note.end_raw_ns = now_raw_ns;
			at->note.unfinished = 1;
			emit(d, &at->note);
		}
		drop_range(d, at);
	}
}

static void give_open(struct note n, int64_t now_raw_ns, note_fn fn, void *arg)
{
	if (n.begin_raw_ns > now_raw_ns)
		return;
	n.end_raw_ns = now_raw_ns;
	n.unfinished = 1;
	fn(arg, &n);
}

/* The outermost first. */
static void give_open_scopes(const struct lane *lane, int64_t now_raw_ns, note_fn fn, void *arg)
{
	const struct open_scope *scopes[TUTTI_DEPTH_MAX];
	size_t n = 0;

	for (const struct open_scope *s = lane->innermost; s; s = s->outer)
		scopes[n++] = s;
	while (n)
		give_open(scopes[--n]->note, now_raw_ns, fn, arg);
}

void decoder_each_open(const struct decoder *d, int64_t now_raw_ns, note_fn fn, void *arg)
{
	for (size_t i = 0; i < DECODER_LANES_MAX; i++) {
		if (d->lanes[i])
			give_open_scopes(d->lanes[i], now_raw_ns, fn, arg);
	}
	for (size_t i = 0; d->ranges && i < DECODER_RANGES_MAX; i++) {
		if (d->ranges[i].has_begin)
			give_open(d->ranges[i].note, now_raw_ns, fn, arg);
	}
}
