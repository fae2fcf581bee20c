/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every object store must keep of storage/store.h: one suite, run for each back end. Ends the
 * program at the first promise broken. The store at `url` must be empty and is left empty.
 */
#ifndef TESTS_STORE_CONFORM_H
#define TESTS_STORE_CONFORM_H

void store_conform(const char *url);

#endif
