/* SPDX-License-Identifier: Apache-2.0 */
/* What refining says, in the manifest. */
#ifndef AGGREGATOR_EVIDENCE_REFINE_REPORT_H
#define AGGREGATOR_EVIDENCE_REFINE_REPORT_H

#include <stddef.h>

#include <jansson.h>

#include "xspace/causality.h"

/*
 * Sets "refined" of the manifest, and of each of its RESULTs that was refined (docs/wire.md). `results` are
 * those that the verdict's hosts are, n of them. No file is touched: the manifest says so.
 */
void refine_report(json_t *manifest, json_t *const *results, size_t n, const struct xs_verdict *v);

#endif
