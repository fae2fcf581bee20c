/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/jobs.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

#define WORDS 5 /* of 4 bytes, "w0, " to "w4, " */

/* Writes a word at a time, in turns or by a worker. */
struct words {
	struct jobs *jobs;
	struct pieces *pieces;
	struct buf *text;
	int next;
	bool by_worker;
	bool *is_freed;
};

static void write_word(void *arg)
{
	struct words *w = arg;

	buf_addf(w->text, "w%d, ", w->next++);
}

static void done_word(void *arg)
{
	struct words *w = arg;

	pieces_go_on(w->pieces);
}

static enum pieces_state write_words(void *arg, struct buf *text, size_t wanted)
{
	struct words *w = arg;

	w->text = text;
	if (w->next == WORDS)
		return PIECES_WHOLE;
	if (text->len >= wanted)
		return PIECES_PART;
	if (w->by_worker) {
		jobs_work(w->jobs, write_word, done_word, w);
		return PIECES_WAIT;
	}
	write_word(w);
	return w->next == WORDS ? PIECES_WHOLE : PIECES_PART;
}

static void free_words(void *arg)
{
	struct words *w = arg;

	*w->is_freed = true;
	free(w);
}

static struct pieces *words_new(struct jobs *jobs, bool by_worker, bool *is_freed)
{
	static const struct pieces_source source = { write_words, free_words };
	struct words *w = xcalloc(1, sizeof(*w));

	*is_freed = false;
	*w = (struct words){ .jobs = jobs, .by_worker = by_worker, .is_freed = is_freed };
	w->pieces = pieces_new(jobs, &source, w, "begin ");
	return w->pieces;
}

struct reader {
	struct pieces *pieces;
	int n; /* pieces */
	bool is_last, frees;
	char text[64];
};

static void on_piece(void *arg, struct buf *piece_taken, bool is_last)
{
	struct reader *r = arg;

	CHECK(!r->is_last);
	r->n++;
	r->is_last = is_last;
	strncat(r->text, buf_str(piece_taken), sizeof(r->text) - strlen(r->text) - 1);
	if (is_last || r->frees)
		pieces_free(r->pieces);
	else
		pieces_more(r->pieces, 8, on_piece, r);
}

static void test_pieces(struct jobs *jobs, bool by_worker)
{
	bool is_freed;
	struct reader r = { .pieces = words_new(jobs, by_worker, &is_freed) };

	pieces_more(r.pieces, 8, on_piece, &r);
	CHECK_EQ(r.n, 0); /* in a later turn */
	jobs_drain(jobs);
	CHECK_STR(r.text, "begin w0, w1, w2, w3, w4, ");
	CHECK(r.is_last && is_freed);
	CHECK_EQ(r.n, 3); /* of 10 bytes, 8, 8 */
}

/* Before it begins, while a worker writes, and by the function that gets a piece. */
static void test_free(struct jobs *jobs)
{
	bool is_freed;
	struct reader r = { .pieces = words_new(jobs, true, &is_freed) };

	pieces_free(NULL);
	pieces_free(r.pieces);
	CHECK(is_freed);
	r.pieces = words_new(jobs, true, &is_freed);
	pieces_more(r.pieces, 8, on_piece, &r);
	loop_turn(jobs->loop, 0); /* has begun the work */
	pieces_free(r.pieces);
	jobs_drain(jobs);
	CHECK(is_freed);
	CHECK_EQ(r.n, 0);
	r = (struct reader){ .pieces = words_new(jobs, false, &is_freed), .frees = true };
	pieces_more(r.pieces, 8, on_piece, &r);
	jobs_drain(jobs);
	CHECK(is_freed);
	CHECK_EQ(r.n, 1);
}

static void keep_text(void *arg, struct buf *text_taken)
{
	struct buf *out = arg;

	*out = *text_taken;
	*text_taken = (struct buf)BUF_INIT;
}

static void test_whole(struct jobs *jobs)
{
	struct buf text = BUF_INIT;
	bool is_freed;

	pieces_make_whole(words_new(jobs, true, &is_freed), false, keep_text, &text);
	CHECK_EQ(text.len, 0);
	jobs_drain(jobs);
	CHECK_STR(buf_str(&text), "begin w0, w1, w2, w3, w4, ");
	CHECK(is_freed);
	buf_release(&text);
}

int main(void)
{
	struct jobs jobs = { 0 };
	struct err e;

	CHECK_OK(loop_new(&jobs.loop, 1, &e), e);
	test_pieces(&jobs, false);
	test_pieces(&jobs, true);
	test_free(&jobs);
	test_whole(&jobs);
	loop_free(jobs.loop);
	return 0;
}
