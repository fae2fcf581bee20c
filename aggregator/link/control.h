/* SPDX-License-Identifier: Apache-2.0 */
/* tutti.v1.Control: one stream per agent. The method's argument is the struct aggregator. */
#ifndef AGGREGATOR_LINK_CONTROL_H
#define AGGREGATOR_LINK_CONTROL_H

struct rpc_events;

#define CONTROL_PATH "/tutti.v1.Control/Connect"
extern const struct rpc_events control_events;

#endif
