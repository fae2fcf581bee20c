/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process runs, for people: "tensorflow_model_server", "python train.py", "python -m trainer". Other
 * arguments are left out: they may hold secrets. Pure.
 */
#ifndef AGENT_PROC_COMMAND_H
#define AGENT_PROC_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* From the contents of /proc/PID/cmdline: words that end with NUL, perhaps cut. Writes clean text that ends with
 * NUL; size > 0. False if there is no first word. */
bool proc_command(const char *cmdline, size_t len, char *out, size_t size);

#endif
