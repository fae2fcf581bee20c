/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call stacks as a prefix tree: a node is a frame, and its parent is the node of the caller. A stack is the
 * number of its innermost frame's node, so equal stacks have the same number. A node costs 16 bytes and a
 * name.
 *
 * A frame is a place in an image (images.h) and belongs to no process: 64 ranks that run the same code share
 * its nodes. A node keeps its number as long as it lives.
 */
#ifndef AGENT_PERF_STACKS_H
#define AGENT_PERF_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STACK_EMPTY 0U /* the root: parent of outermost frames */
#define STACK_FULL  UINT32_MAX /* no room */

struct frame {
	uint64_t offset;
	uint32_t image;
};

struct stack_node {
	uint64_t offset;
	uint32_t image;
	uint32_t parent;
};

struct stacks;

struct stacks *stacks_new(size_t max_nodes); /* memory grows as needed */
void stacks_free(struct stacks *s);

/* The node of `frame` below `parent`, added if it is missing; STACK_FULL when the tree is full. */
uint32_t stacks_push(struct stacks *s, uint32_t parent, const struct frame *frame);

/* Numbers of nodes are 1 .. count - 1; some may be free. */
size_t stacks_count(const struct stacks *s);
const struct stack_node *stacks_node(const struct stacks *s, uint32_t node); /* NULL: free */
size_t stacks_used(const struct stacks *s); /* nodes that are not free, and the root */

/* The lowest number of a node that was added since the last call; UINT32_MAX: none was. */
uint32_t stacks_take_added(struct stacks *s);

/* A number that the owner sets for each node; 0 at first. */
uint32_t stacks_name(const struct stacks *s, uint32_t node);
void stacks_set_name(struct stacks *s, uint32_t node, uint32_t name);

/* Keeps the nodes with keep[node] (count entries) and their callers, and frees all others. keep[] becomes
 * true for the callers too. */
void stacks_sweep(struct stacks *s, bool *keep);

#endif
