/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of the aggregator's ProfilerService, at a machine of their own: Profile with a deadline, and Terminate by
 * the name that the client chose. As long as nothing disturbs the aggregator or its store, every call is answered
 * before its deadline, and soon after its capture has ended. Sessions of answered calls are requests of user.h
 * from then on.
 */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

void client_new(void);
void client_stop(void); /* ends the calls that are under way */
void client_free(void); /* its last packets have arrived */

void client_profile(void);
void client_terminate(void); /* one that is under way */

/* The aggregator is about to be killed, stopped, paused or without a store. */
void client_before_outage(void);

#endif
