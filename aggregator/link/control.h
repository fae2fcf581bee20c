/* SPDX-License-Identifier: Apache-2.0 */
/* The control links: tutti.v1.Control, one stream per agent. The method's argument is the struct control. Loop thread. */
#ifndef AGGREGATOR_LINK_CONTROL_H
#define AGGREGATOR_LINK_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

struct captures;
struct control;
struct loop;
struct registry;
struct rpc_events;
struct session_clock;
struct time_service;

#define CONTROL_PATH "/tutti.v1.Control/Connect"
extern const struct rpc_events control_events;

struct control_env {
	struct loop *loop;
	const struct session_clock *clock;
	struct time_service *time;
	struct registry *registry;
	struct captures *captures;
	struct access *access; /* whose token a host's processes need to capture other hosts */
	uint64_t term; /* as the leader of several aggregators; 0 = there is one */
	bool needs_certificate; /* every agent must have one */
};

struct control_stats {
	uint64_t messages, armed; /* received */
	uint64_t bad_messages;
};

struct control *control_new(const struct control_env *env);
void control_free(struct control *c); /* all streams are closed; NULL is fine */

/* Ends all streams that are open now, of a large fleet over several turns of the loop; the agents dial again at
 * once. `why` is static. */
void control_close_links(struct control *c, const char *why);

/* Ends the host's link and its part in captures, and forgets the host: it is not one of the fleet any more. */
void control_refuse_host(struct control *c, const char *host, const char *why);

const struct control_stats *control_stats(const struct control *c);

#endif
