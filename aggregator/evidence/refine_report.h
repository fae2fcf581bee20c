/* SPDX-License-Identifier: Apache-2.0 */
/* The result of refinement, in the manifest. */
#ifndef AGGREGATOR_EVIDENCE_REFINE_REPORT_H
#define AGGREGATOR_EVIDENCE_REFINE_REPORT_H

#include <stddef.h>

#include <jansson.h>

#include "xspace/causality.h"

/*
 * Sets "refined" of the manifest, whose hosts may be packed, and of each refined RESULT (docs/wire.md).
 * `at[i]` is the place in "hosts" of the verdict's host i, for n hosts. No file is changed; the manifest says
 * so.
 */
void refine_report(json_t *manifest, const size_t *at, size_t n, const struct xs_verdict *v);

#endif
