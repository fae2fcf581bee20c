/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes as records of a perf ring, through a window so small that it overflows all the time. */
#include "agent/tracer/cpu/window.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cpu_window *w = cpu_window_new(
		&(struct cpu_window_conf){ .max_nodes = 32, .max_images = 8 });
	struct cpu_cut *cut;

	cpu_window_feed(w, data, size / 2);
	cpu_window_flush(w, 1000);
	if (size)
		cpu_window_feed(w, data + size / 2, size - size / 2);
	cpu_window_flush(w, INT64_MAX);
	cpu_questions_free(cpu_window_take_questions(w));
	cut = cpu_window_cut(w, ring_cut_new(cpu_window_ring(w), 0, INT64_MAX));
	cpu_cut_load(cut);
	cpu_cut_free(cut);
	cpu_window_free(w);
	return 0;
}
