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

/* A piece without events counts as recorded: the process did nothing that PyTorch records, for example while it
 * imported torch. */
void pieces_take(struct pieces *p, struct recording *r)
{
	bool is_empty = !r->path && !strcmp(r->reason, REASON_EMPTY);

	if (r->path || is_empty) {
		p->n++;
		p->recorded_ns += r->told_to_real_ns - r->told_from_real_ns;
	}
	if (r->path) {
		take_file(p, r);
	} else {
		p->reason = r->reason;
		snprintf(p->why, sizeof(p->why), "%s", r->detail);
	}
}

const char *pieces_describe(const struct pieces *p, int64_t to_real_ns, char *text, size_t size)
{
	int used = snprintf(
		text, size,
		"PyTorch records in pieces: %u with %.1f of the %.1f s since it first asked, "
		"what lies between them is missing",
		p->n, (double)p->recorded_ns / 1e9, (double)(to_real_ns - p->asked_real_ns) / 1e9);

	if (*p->why && used > 0 && (size_t)used < size)
		snprintf(text + used, size - (size_t)used, "; one is missing: %s", p->why);
	return p->path ? REASON_WINDOW_CUT : *p->reason ? p->reason : REASON_REFUSED_LATE;
}
