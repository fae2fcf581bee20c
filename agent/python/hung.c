/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/hung.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/proc/status.h"
#include "base/mem.h"

#define PLACES_MAX 64
/* A process that was well for so long begins anew. */
#define FORGET_NS (600 * NS_PER_S)

struct place {
	uint32_t pid, uid;
	int fd; /* to the maker that hangs there; -1: none does */
	bool is_resting;
	int64_t until_ns; /* CLOCK_MONOTONIC */
	unsigned int hangs;
};

struct python_hung {
	struct place v[PLACES_MAX];
	size_t n;
};

struct python_hung *python_hung_new(void)
{
	return xcalloc(1, sizeof(struct python_hung));
}

static void forget(struct python_hung *h, size_t i)
{
	if (h->v[i].fd >= 0)
		close(h->v[i].fd);
	h->v[i] = h->v[--h->n];
}

void python_hung_free(struct python_hung *h)
{
	while (h && h->n)
		forget(h, 0);
	free(h);
}

static unsigned int hangs_of(const struct python_hung *h, uint32_t uid)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < h->n; i++)
		sum += h->v[i].uid == uid ? h->v[i].hangs : 0;
	return sum;
}

static int64_t rest_ns(const struct python_hung *h, uint32_t uid)
{
	int64_t ns = PYTHON_REST_NS;

	for (unsigned int i = hangs_of(h, uid); i > 1 && ns < PYTHON_REST_MAX_NS; i--)
		ns *= 2;
	return ns < PYTHON_REST_MAX_NS ? ns : PYTHON_REST_MAX_NS;
}

/* The one to forget for another: no maker hangs there, and it is the first to be read again. */
static size_t least(const struct python_hung *h)
{
	size_t found = 0;

	for (size_t i = 1; i < h->n; i++) {
		const struct place *a = &h->v[i], *b = &h->v[found];

		if (a->fd < 0 && (b->fd >= 0 || a->until_ns < b->until_ns))
			found = i;
	}
	return found;
}

static struct place *place_of(struct python_hung *h, uint32_t pid, uint32_t uid)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].pid == pid && h->v[i].uid == uid && h->v[i].fd < 0)
			return &h->v[i];
	if (h->n == PLACES_MAX)
		forget(h, least(h));
	h->v[h->n] = (struct place){ .pid = pid, .uid = uid };
	return &h->v[h->n++];
}

void python_hung_add(struct python_hung *h, uint32_t pid, uint32_t uid, int fd, int64_t mono_ns)
{
	struct place *p = place_of(h, pid, uid);

	p->hangs++;
	p->fd = fd;
	p->is_resting = true;
	p->until_ns = mono_ns + rest_ns(h, uid);
}

static bool has_come_back(const struct place *p)
{
	struct pollfd look = { .fd = p->fd, .events = POLLIN };

	return poll(&look, 1, 0) > 0;
}

void python_hung_look(struct python_hung *h, int64_t mono_ns)
{
	for (size_t i = h->n; i-- > 0;) {
		struct place *p = &h->v[i];

		if (p->fd >= 0 && has_come_back(p)) {
			close(p->fd);
			p->fd = -1;
			p->until_ns = mono_ns + rest_ns(h, p->uid);
		}
		if (p->fd < 0 && mono_ns >= p->until_ns)
			p->is_resting = false;
		if (p->fd < 0 && mono_ns - p->until_ns > FORGET_NS)
			forget(h, i);
	}
}

bool python_hung_is_full(const struct python_hung *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++) {
		n += h->v[i].fd >= 0;
		if (!h->v[i].pid && h->v[i].is_resting)
			return true;
	}
	return n >= PYTHON_HUNG_MAX;
}

/* Whether all processes of the user are left alone. */
static bool has_user(const struct python_hung *h, uint32_t uid)
{
	bool rests = false;

	for (size_t i = 0; i < h->n; i++)
		rests |= h->v[i].uid == uid && h->v[i].is_resting;
	return rests && hangs_of(h, uid) >= PYTHON_HUNG_FREE;
}

bool python_hung_has(const struct python_hung *h, uint32_t pid)
{
	struct proc_status status;
	bool any_user = false;

	for (size_t i = 0; i < h->n; i++) {
		if (h->v[i].pid == pid && h->v[i].is_resting)
			return true;
		any_user |= has_user(h, h->v[i].uid);
	}
	return any_user && proc_status_of(pid, &status) && has_user(h, status.uid);
}
