/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crash campaign: short lives of a capture (lives[]), and at each single call of the store in such a life a
 * kill of the aggregator or an outage of the store (variants[]). Everything of check.h must hold after each.
 */
#ifndef SIM_CRASH_H
#define SIM_CRASH_H

#include <stdbool.h>

/*
 * `which`: "all", "LIFE" or "LIFE/VARIANT/CALL". With `every` above 1 only every so manieth call. Prints a table, and
 * each failure with the command that plays it again. Returns false if one failed; exits on a wrong `which`.
 */
bool crash_campaign(const char *which, int every);

#endif
