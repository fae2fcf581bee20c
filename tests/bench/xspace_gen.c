/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xspace_gen OUT BYTES [START_NS]: writes an XSpace of at least that size, of GPU planes as a busy trainer
 * leaves them: 25 streams, kernels back to back, two stats each, 70 ms from START_NS on. Four planes are built; a bigger file
 * repeats them under the same names. The same bytes every time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "xspace/xspace.h"

#define PLANES		4
#define LINES		25
#define KERNELS		2000
#define PLANE_BYTES_MAX (40 << 20)
#define EVENT_BYTES	37 /* about */

static uint64_t random_next(void)
{
	static uint64_t state = UINT64_C(88172645463325252);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void add_events(struct xs_builder *b, uint64_t n)
{
	int64_t at_ps = 1000;
	char name[80], stat[16];

	for (uint64_t i = 0; i < n; i++) {
		uint64_t r = random_next();
		int64_t duration_ps = 20000 + (int64_t)(r & 0xfffff) * 3;

		snprintf(name, sizeof(name), "void cutlass::Kernel<sm80_tensorop_bf16_gemm_%u>",
			 (unsigned int)((r >> 40) % KERNELS));
		xs_event(b, name, at_ps, duration_ps);
		snprintf(stat, sizeof(stat), "stat_%u", (unsigned int)((r >> 20) % 40));
		xs_stat_uint(b, stat, i * 7 + (r >> 50));
		xs_stat_str(b, "kernel_details", stat);
		at_ps += duration_ps + (int64_t)((r >> 33) % 5000);
	}
}

static void build_plane(int index, uint64_t bytes, int64_t start_ns, struct buf *out)
{
	struct xs_builder *b = xs_builder_new();
	char name[64];

	snprintf(name, sizeof(name), "/device:GPU:%d", index);
	xs_plane(b, index, name);
	for (int i = 0; i < LINES; i++) {
		snprintf(name, sizeof(name), "Stream #%d(Compute)", i);
		xs_line(b, i + 1, name, start_ns + (i % 5 ? 1000 + i * 37 + index : 0));
		add_events(b, bytes / LINES / EVENT_BYTES + 1);
	}
	xs_finish(b, out);
	xs_builder_free(b);
}

int main(int argc, char **argv)
{
	uint64_t want = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0, bytes = 0,
		 each = want / PLANES;
	int64_t start_ns = argc == 4 ? strtoll(argv[3], NULL, 10) : 0;
	struct buf planes[PLANES] = { BUF_INIT };
	FILE *f = want ? fopen(argv[1], "wb") : NULL;

	if (!f) {
		fprintf(stderr, "usage: xspace_gen OUT BYTES [START_NS]\n");
		return 2;
	}
	for (int i = 0; i < PLANES; i++)
		build_plane(i, each < PLANE_BYTES_MAX ? each : PLANE_BYTES_MAX, start_ns,
			    &planes[i]);
	for (int i = 0; bytes < want; i = (i + 1) % PLANES) {
		if (fwrite(planes[i].data, 1, planes[i].len, f) != planes[i].len)
			break;
		bytes += planes[i].len;
	}
	for (int i = 0; i < PLANES; i++)
		buf_release(&planes[i]);
	if (fclose(f) || bytes < want) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
