/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "proto/reasons.h"

struct pieces *pieces_new(const struct pytorch_process *process)
{
	struct pieces *p = xcalloc(1, sizeof(*p));

	p->pid = process->pid;
	p->inner_pid = process->inner_pid;
	p->uid = process->uid;
	memcpy(p->comm, process->comm, sizeof(p->comm));
	p->asked_real_ns = now_real_ns();
	p->reason = "";
	return p;
}

void pieces_free(struct pieces *p)
{
	free(p->path);
	free(p);
}

static void take_file(struct pieces *p, struct recording *r)
{
	if (!p->path)
		p->start_real_ns = r->start_real_ns;
	free(p->path);
	p->path = r->path;
	r->path = NULL;
}

static void note_time(struct pieces *p, int64_t from_ns, int64_t to_ns)
{
	if (!p->n)
		p->from_real_ns = from_ns;
	p->n++;
	p->recorded_ns += to_ns - from_ns;
	p->to_real_ns = to_ns;
}

/* A piece without events counts as recorded: the process did nothing that PyTorch records, for example while it
 * imported torch. */
void pieces_take(struct pieces *p, struct recording *r)
{
	bool is_empty = !r->path && !strcmp(r->reason, REASON_EMPTY);

	p->is_open = r->is_open;
	if (r->is_open && (r->path || is_empty))
		note_time(p, r->to_real_ns ? r->from_real_ns : r->told_real_ns,
			  r->to_real_ns ? r->to_real_ns : now_real_ns());
	else if (r->path || is_empty)
		note_time(p, r->told_from_real_ns, r->told_to_real_ns);
	if (r->path) {
		take_file(p, r);
	} else if (!is_empty || !r->is_open) {
		p->reason = r->reason;
		snprintf(p->why, sizeof(p->why), "%s", r->detail);
	}
}

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

const char *pieces_describe(const struct pieces *p, int64_t to_real_ns, bool was_killed, char *text,
			    size_t size)
{
	int64_t between_ns = p->to_real_ns - p->from_real_ns - p->recorded_ns;
	bool is_to_the_end = p->is_open && !*p->reason && !was_killed;
	int used;

	*text = '\0';
	if (is_to_the_end && p->n == 1)
		return "";
	if (is_to_the_end) /* then it waited for the agent */
		to_real_ns = p->to_real_ns;
	used = snprintf(text, size,
			"PyTorch recorded %.1f of the %.1f s since it first asked, pieces: %u",
			seconds(p->recorded_ns), seconds(to_real_ns - p->asked_real_ns), p->n);
	if (p->n)
		used += snprintf(
			text + used, size - (size_t)used,
			"; missing are %.1f s before, %.1f s between and %.1f s after them",
			seconds(p->from_real_ns - p->asked_real_ns), seconds(between_ns),
			seconds(to_real_ns - p->to_real_ns));
	if (*p->why)
		snprintf(text + used, size - (size_t)used, "; %s", p->why);
	else if (was_killed)
		snprintf(text + used, size - (size_t)used, "; the process was killed between two");
	return p->path ? REASON_WINDOW_CUT : *p->reason ? p->reason : REASON_REFUSED_LATE;
}
