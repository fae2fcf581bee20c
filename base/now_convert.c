/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of now.h that make no system call themselves. */
#include "base/now.h"

#include <math.h>

#define SLEW_MAX      600e-6 /* the kernel steers by 500 ppm at most */
#define STEP_LEAST_NS 1000 /* a smaller step is noise */
#define YEAR_NS	      (366 * 24 * 3600 * NS_PER_S)

struct clock_pair now_pair(void)
{
	struct clock_pair p;

	now_pair_ns(&p.raw_ns, &p.real_ns, &p.width_ns);
	return p;
}

int64_t clock_pair_moved_ns(const struct clock_pair *a, const struct clock_pair *b)
{
	return (b->real_ns - b->raw_ns) - (a->real_ns - a->raw_ns);
}

bool clock_pair_has_step(const struct clock_pair *a, const struct clock_pair *b)
{
	double allowed = SLEW_MAX * (double)(b->raw_ns - a->raw_ns) +
			 (double)(a->width_ns + b->width_ns + STEP_LEAST_NS);

	return fabs((double)clock_pair_moved_ns(a, b)) > allowed;
}

int64_t now_mono_of_raw(int64_t raw_ns)
{
	int64_t now_raw = now_raw_ns();

	if (raw_ns > now_raw + YEAR_NS)
		raw_ns = now_raw + YEAR_NS;
	if (raw_ns < now_raw - YEAR_NS)
		raw_ns = now_raw - YEAR_NS;
	return now_mono_ns() + (raw_ns - now_raw);
}
