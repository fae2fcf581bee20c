/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/plan.h"

/* The size of the whole output. */
static uint64_t planned_bytes(const struct plan *plan, const struct xs_source *in)
{
	uint64_t bytes = in->size;

	for (size_t i = 0; i < plan->n_planes; i++)
		bytes += plan_plane_bytes(&plan->planes[i], NULL, 0) -
			 (plan->planes[i].field.end - plan->planes[i].field.at);
	return bytes;
}

int xs_rebase(const struct xs_source *in, const struct xs_rebase *conf, const struct xs_sink *out,
	      struct xs_counts *counts, struct err *e)
{
	struct xs_counts sum = { 0 };
	struct splicer sp;
	struct plan plan;
	struct wire w;
	int rc;

	wire_open(&w, in);
	splicer_open(&sp, in, out);
	rc = plan_make(&plan, &w, conf, e);
	if (!rc && out->expect)
		out->expect(out->arg, planned_bytes(&plan, in));
	for (size_t i = 0; !rc && i < plan.n_planes; i++)
		rc = plan_write_plane(&plan, &plan.planes[i], NULL, 0, &w, &sp, &sum, e);
	if (!rc)
		rc = splicer_copy(&sp, in->size, e);
	if (!rc)
		rc = splicer_flush(&sp, e);
	sum.bytes = sp.written;
	if (!rc && counts)
		*counts = sum;
	plan_release(&plan);
	splicer_close(&sp);
	wire_close(&w);
	return rc;
}
