/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a clock leaves out what is not known. */
#include "aggregator/fleet/host_clock.h"
#include "tests/lib/check.h"

static void check_members(const Tutti__V1__ClockModel *m, bool rate, bool wall_error)
{
	struct host_clock_break breaks[LIMIT_CLOCK_STEPS];
	struct host_clock c = host_clock_from(m, breaks);
	json_t *o = host_clock_json(&c);

	CHECK((json_object_get(o, "rate_ppb") != NULL) == rate);
	CHECK((json_object_get(o, "wall_error_ns") != NULL) == wall_error);
	CHECK(json_is_boolean(json_object_get(o, "wall_synced")));
	json_decref(o);
}

static void check_suspected(const Tutti__V1__ClockModel *m, int64_t delta_ns)
{
	struct host_clock_break breaks[LIMIT_CLOCK_STEPS];
	struct host_clock c = host_clock_from(m, breaks);
	json_t *o = host_clock_json(&c), *s = json_object_get(o, "suspected");

	CHECK((s != NULL) == (delta_ns != 0));
	if (s) {
		CHECK_STR(json_string_value(json_object_get(s, "kind")), "rate");
		CHECK_EQ(json_integer_value(json_object_get(s, "delta_ns")), delta_ns);
		CHECK_EQ(json_integer_value(json_object_get(s, "known_ns")), 9);
	}
	json_decref(o);
}

int main(void)
{
	Tutti__V1__ClockModel m = TUTTI__V1__CLOCK_MODEL__INIT;
	Tutti__V1__ClockStep step = TUTTI__V1__CLOCK_STEP__INIT;

	m.calibrated = true;
	check_members(&m, false, false);
	m.rate_known = true;
	check_members(&m, true, false);
	m.wall_synced = true;
	check_members(&m, true, true);
	check_suspected(&m, 0);
	step.kind = (char *)"rate";
	step.delta_ns = -7;
	m.suspected = &step;
	m.suspected_known_ns = 9;
	check_suspected(&m, -7);
	return 0;
}
