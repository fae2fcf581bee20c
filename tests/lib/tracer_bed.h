/* SPDX-License-Identifier: Apache-2.0 */
/* One driver, configured as the agent does it and opened, for tests and benches. */
#ifndef TESTS_TRACER_BED_H
#define TESTS_TRACER_BED_H

#include "agent/tracer/tracer.h"
#include "base/conf.h"

struct tracer_bed {
	const struct tracer_ops *drivers[2];
	struct conf_part *confs;
	struct conf_table table;
	struct tracer_env env;
};

/* Loads the driver's configuration: its defaults and these flags, separated by blanks; NULL = none. A
 * flag that is refused ends the test. `env` is copied, `env.conf` is the result. */
void tracer_bed_init(struct tracer_bed *bed, const struct tracer_ops *ops,
		     const struct tracer_env *env, const char *flags);
void tracer_bed_release(struct tracer_bed *bed); /* the tracer is closed */

/* Opens the driver; ends the test if that fails. */
struct tracer *tracer_bed_open(struct tracer_bed *bed);

#endif
