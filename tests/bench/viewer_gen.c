/* SPDX-License-Identifier: Apache-2.0 */
/*
 * viewer_gen OUT EVENTS [SEED]: writes an XSpace of about that many events, some 50 bytes each, as a busy host leaves them:
 * eight GPUs with six streams of kernels, which have eight stats; four Python threads, whose calls lie in calls and are written
 * when they end; twelve threads of a pool, which launch kernels by flows. The same bytes for the same seed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "xspace/xspace.h"

#define GPUS	   8
#define STREAMS	   6
#define PYTHONS	   4
#define POOL	   12
#define LINES	   (GPUS * STREAMS + PYTHONS + POOL)
#define KERNELS	   2500
#define FUNCTIONS  4000
#define DEPTH	   40
#define FLOW_EACH  10 /* kernels */
#define PS_PER_US  1000000
#define NAME_BYTES 96

static uint64_t state;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % below;
}

static char kernels[KERNELS][NAME_BYTES], functions[FUNCTIONS][NAME_BYTES];

static void make_names(void)
{
	static const char *const kinds[] = { "cutlass::Kernel<sm90_tensorop_bf16_gemm",
					     "fused_layer_norm_kernel<float",
					     "ncclDevKernel_AllReduce_Sum_bf16_RING_LL<",
					     "flash_fwd_splitkv_kernel<192" };

	for (unsigned int i = 0; i < KERNELS; i++)
		snprintf(kernels[i], NAME_BYTES, "void %s_%ux%u, %u>", kinds[i % 4], 32 << (i % 4),
			 64 << (i % 3), i);
	for (unsigned int i = 0; i < FUNCTIONS; i++)
		snprintf(functions[i], NAME_BYTES, "$module_%u.py:%u forward_%u", i % 97,
			 i * 7 % 2000, i);
}

static void add_kernels(struct xs_builder *b, uint64_t n, uint64_t first_flow)
{
	int64_t at_ps = (int64_t)draw(20 * PS_PER_US);

	for (uint64_t i = 0; i < n; i++) {
		int64_t length_ps = 2 * PS_PER_US +
				    (int64_t)draw(draw(8) ? 9 * PS_PER_US : 90 * PS_PER_US);

		xs_event(b, kernels[draw(KERNELS)], at_ps, length_ps);
		xs_stat_uint(b, "correlation_id", i);
		xs_stat_uint(b, "registers_per_thread", 32 + draw(200));
		xs_stat_uint(b, "static_shared_memory_bytes", draw(1 << 12));
		xs_stat_uint(b, "dynamic_shared_memory_bytes", draw(1 << 16));
		xs_stat_uint(b, "block_x", 32 << draw(5));
		xs_stat_uint(b, "grid_x", 1 + draw(4096));
		xs_stat_uint(b, "theoretical_occupancy_pct", draw(101));
		xs_stat_str(b, "memcpy_details", draw(2) ? "kind:device" : "kind:host");
		if (!(i % FLOW_EACH))
			xs_stat_uint(b, "flow", (first_flow + i) << 2 | 1);
		at_ps += length_ps + (int64_t)draw(3 * PS_PER_US);
	}
}

/* A call, and those in it before it; returns how many events. */
static uint64_t add_calls(struct xs_builder *b, int64_t *at_ps, int depth, uint64_t most)
{
	int64_t begin_ps = *at_ps;
	uint64_t n = 0, inner = depth < DEPTH ? draw(depth < 12 ? 4 : 3) : 0;

	*at_ps += 100000 + (int64_t)draw(PS_PER_US);
	for (uint64_t i = 0; i < inner && n + 1 < most; i++)
		n += add_calls(b, at_ps, depth + 1, most - n - 1);
	*at_ps += 100000 + (int64_t)draw(PS_PER_US);
	xs_event(b, functions[draw(FUNCTIONS)], begin_ps, *at_ps - begin_ps);
	return n + 1;
}

static void add_python(struct xs_builder *b, uint64_t n)
{
	int64_t at_ps = 0;

	while (n) {
		n -= add_calls(b, &at_ps, 0, n);
		at_ps += (int64_t)draw(5 * PS_PER_US);
	}
}

static void add_launches(struct xs_builder *b, uint64_t n, uint64_t first_flow)
{
	int64_t at_ps = (int64_t)draw(PS_PER_US);

	for (uint64_t i = 0; i < n; i++) {
		int64_t length_ps = PS_PER_US + (int64_t)draw(4 * PS_PER_US);

		xs_event(b, i % 3 ? "ThreadpoolListener::Region" : "cudaLaunchKernelExC", at_ps,
			 length_ps);
		if (!(i % 3))
			xs_stat_uint(b, "flow", (first_flow + i / 3 * FLOW_EACH) << 2 | 2);
		at_ps += length_ps + (int64_t)draw(20 * PS_PER_US);
	}
}

static void build_gpu(struct xs_builder *b, int gpu, uint64_t each)
{
	char name[64];

	snprintf(name, sizeof(name), "/device:GPU:%d", gpu);
	xs_plane(b, gpu + 1, name);
	for (int i = 0; i < STREAMS; i++) {
		snprintf(name, sizeof(name), "Stream #%d(Compute)", i + 7);
		xs_line(b, i + 7, name, 0);
		add_kernels(b, each, (uint64_t)(gpu * STREAMS + i) << 32);
	}
}

static void build_host(struct xs_builder *b, uint64_t each)
{
	char name[64];

	xs_plane(b, 0, "/host:CPU");
	for (int i = 0; i < PYTHONS; i++) {
		snprintf(name, sizeof(name), "python3/%d", 4700 + i);
		xs_line(b, 4700 + i, name, 0);
		add_python(b, each);
	}
	for (int i = 0; i < POOL; i++) {
		snprintf(name, sizeof(name), "tf_data_pool/%d", 4800 + i);
		xs_line(b, 4800 + i, name, 0);
		add_launches(b, each, (uint64_t)i << 32);
	}
}

int main(int argc, char **argv)
{
	uint64_t events = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0;
	FILE *f = events ? fopen(argv[1], "wb") : NULL;

	if (!f) {
		fprintf(stderr, "usage: viewer_gen OUT EVENTS [SEED]\n");
		return 2;
	}
	state = UINT64_C(88172645463325252) + (argc >= 4 ? strtoull(argv[3], NULL, 10) : 0) * 977;
	make_names();
	for (int i = 0; i <= GPUS; i++) {
		struct xs_builder *b = xs_builder_new();
		struct buf plane = BUF_INIT;

		if (i)
			build_gpu(b, i - 1, events / LINES + 1);
		else
			build_host(b, events / LINES + 1);
		xs_finish(b, &plane);
		xs_builder_free(b);
		if (fwrite(plane.data, 1, plane.len, f) != plane.len) {
			perror(argv[1]);
			return 1;
		}
		buf_release(&plane);
	}
	if (fclose(f)) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
