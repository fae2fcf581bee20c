/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a ring of annotations, read several times while its owner changes it: the input is a row of {byte, slots};
 * the byte says which lane they go to, how its head moves, and whether the file shrinks.
 */
#include "agent/tracer/annotations/shared_ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LANES	  4u
#define SLOTS	  64u
#define SLOTS_AT  8192
#define RING_SIZE (SLOTS_AT + LANES * SLOTS * sizeof(struct tutti_slot))
#define NOW	  INT64_C(1000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t events;

static void on_note(void *arg, const struct note *n)
{
	(void)arg;
	if (n->end_raw_ns < n->begin_raw_ns || n->text_len > TUTTI_TEXT_MAX ||
	    strlen(n->text) != n->text_len || n->kind > NOTE_STEP_BEGIN ||
	    n->type > TUTTI_TYPE_DOUBLE)
		abort();
	events++;
}

static void write_at(int fd, const void *data, size_t len, uint64_t at)
{
	if (pwrite(fd, data, len, (off_t)at) < 0)
		abort();
}

/* The owner's turn; returns how much of the input it used. */
static size_t change(int fd, const uint8_t *data, size_t size)
{
	uint32_t lane = data[0] % LANES;
	size_t n = data[0] >> 2 & 15, room = (size - 1) / sizeof(struct tutti_slot);
	uint64_t head_at = TUTTI_RING_LANES_AT + lane * sizeof(struct tutti_lane), head = 0;

	if (pread(fd, &head, sizeof(head), (off_t)head_at) < 0)
		abort();
	if (n > room)
		n = room;
	for (size_t i = 0; i < n; i++)
		write_at(fd, data + 1 + i * sizeof(struct tutti_slot), sizeof(struct tutti_slot),
			 SLOTS_AT +
				 (lane * SLOTS + (head + i) % SLOTS) * sizeof(struct tutti_slot));
	head += data[0] & 0x40 ? n * 40 : n;
	if (data[0] == 0xff)
		head -= 3;
	write_at(fd, &head, sizeof(head), head_at);
	if (data[0] == 0x80 && ftruncate(fd, (off_t)(size * 7 % RING_SIZE)))
		abort();
	return 1 + n * sizeof(struct tutti_slot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tutti_ring header = { .magic = TUTTI_RING_MAGIC,
				     .version = TUTTI_RING_VERSION,
				     .lanes = LANES,
				     .slots = SLOTS,
				     .clock = TUTTI_CLOCK_RAW,
				     .pid = 1 };
	struct ring_reading reading = { .now_raw_ns = NOW, .fn = on_note };
	struct ticks_map map = { 0 };
	size_t n_open = 0;
	struct shared_ring *r;
	int fd = memfd_create("fuzz", MFD_CLOEXEC), mine = dup(fd);

	if (fd < 0 || mine < 0 || ftruncate(fd, RING_SIZE))
		abort();
	/* The last bytes of an odd input are the header's. */
	if (size & 1)
		memcpy(&header, data + size - (size < 32 ? size : 32), size < 32 ? size : 32);
	write_at(fd, &header, sizeof(header), 0);
	if (shared_ring_open(&r, fd, &(struct ring_process){ .pid = 1, .inner_pid = 1 }, &n_open,
			     NULL))
		r = NULL;
	reading.map = &map;
	events = 0;
	while (r && size) {
		size_t used = change(mine, data, size);

		data += used;
		size -= used;
		reading.slots_left = 100;
		shared_ring_read(r, &reading);
		if (events > 100000)
			abort();
	}
	if (r) {
		shared_ring_each_open(r, &reading);
		shared_ring_end(r, &reading);
	}
	shared_ring_free(r);
	if (n_open)
		abort();
	close(mine);
	return 0;
}
