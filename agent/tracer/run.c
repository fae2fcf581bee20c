/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with which tracers fill in a run. */
#include "agent/tracer/tracer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"

const char *tracer_health_name(enum tracer_health health)
{
	static const char *const names[] = {
		[TRACER_OK] = "ok",
		[TRACER_DEGRADED] = "degraded",
		[TRACER_OFF] = "off",
	};

	return names[health];
}

void tracer_get_state(const struct tracer *t, struct tracer_state *out)
{
	t->ops->state(t, out);
	if (!t->limit.step || out->health != TRACER_OK)
		return;
	out->health = TRACER_DEGRADED;
	snprintf(out->reason, sizeof(out->reason), "%s", t->limit.reason);
}

bool tracer_was_limited(const struct tracer *t, int64_t t0_raw_ns, int64_t t1_raw_ns)
{
	return t->limit.from_raw_ns < t1_raw_ns && t->limit.to_raw_ns > t0_raw_ns;
}

struct tracer_part *tracer_run_add_part(struct tracer_run *run)
{
	struct tracer_part *part;

	run->parts = xrealloc(run->parts, (run->n_parts + 1) * sizeof(*run->parts));
	part = &run->parts[run->n_parts++];
	memset(part, 0, sizeof(*part));
	return part;
}

static size_t place_of(const struct tracer_ops *ops, const char *name)
{
	size_t i = 0;

	while (ops->settings[i].name && strcmp(ops->settings[i].name, name))
		i++;
	assert(ops->settings[i].name);
	return i;
}

int64_t tracer_run_half_time(const struct tracer_run *run)
{
	int64_t now_ns = now_mono_ns();

	return now_ns + (run->give_up_mono_ns - now_ns) / 2;
}

int64_t tracer_run_setting(const struct tracer_run *run, const struct tracer_ops *ops,
			   const char *name)
{
	size_t i = place_of(ops, name);

	return run->settings ? run->settings[i] : ops->settings[i].value;
}

const char *tracer_run_text(const struct tracer_run *run, const struct tracer_ops *ops,
			    const char *name)
{
	size_t i = place_of(ops, name);

	return run->texts && run->texts[i] ? run->texts[i] : "";
}

void tracer_run_set_result(struct tracer_run *run, int result, const char *reason, const char *fmt,
			   ...)
{
	va_list ap;

	run->result = result;
	snprintf(run->reason, sizeof(run->reason), "%s", reason);
	va_start(ap, fmt);
	if ((size_t)vsnprintf(run->detail, sizeof(run->detail), fmt, ap) >= sizeof(run->detail))
		end_cut_sentence(run->detail, sizeof(run->detail));
	va_end(ap);
}
