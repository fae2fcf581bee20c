/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of a schedule, and their networks, by chance. */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include <stdbool.h>

void fleet_make_host(const char *name); /* the first one is the aggregator's */

/* The second aggregator, on the machine of the first one or on its own. */
void fleet_make_standby(bool same_machine);

#endif
