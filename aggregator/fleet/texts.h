/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that hosts report: names and states of tracers, labels, commands of jobs. Most hosts of a fleet report the same
 * ones: they share one copy. Loop thread.
 */
#ifndef AGGREGATOR_FLEET_TEXTS_H
#define AGGREGATOR_FLEET_TEXTS_H

#include <sys/queue.h>

struct text;

/* The texts that are held; the one that was found last comes first. */
TAILQ_HEAD(texts, text);

/* A text that equals this one, for the caller to give back with text_unref(). Only the texts that were found last are
 * compared, so a peer that invents texts costs no more time; its texts are then not shared. */
const char *text_share(struct texts *all, const char *text);
void text_unref(struct texts *all, const char *shared); /* NULL is fine */

#endif
