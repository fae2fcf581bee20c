/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a clock leaves out what is not known. */
#include "aggregator/fleet/host_clock.h"
#include "tests/lib/check.h"

static void check_members(const Tutti__V1__ClockModel *m, bool rate, bool wall_error)
{
	struct host_clock c = host_clock_from(m);
	json_t *o = host_clock_json(&c);

	CHECK((json_object_get(o, "rate_ppb") != NULL) == rate);
	CHECK((json_object_get(o, "wall_error_ns") != NULL) == wall_error);
	CHECK(json_is_boolean(json_object_get(o, "wall_synced")));
	json_decref(o);
}

int main(void)
{
	Tutti__V1__ClockModel m = TUTTI__V1__CLOCK_MODEL__INIT;

	m.calibrated = true;
	check_members(&m, false, false);
	m.rate_known = true;
	check_members(&m, true, false);
	m.wall_synced = true;
	check_members(&m, true, true);
	return 0;
}
