/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what an aggregator tells an agent of the pods on its node; called by control_unpack_from_aggregator(). */
#ifndef PROTO_PODS_CHECK_H
#define PROTO_PODS_CHECK_H

#include "base/err.h"
#include "proto/tutti/v1/control.pb-c.h"

#define POD_CONTAINER_ID_CHARS 64 /* then a blank and the container's name */

/* ERR_INVALID; the sentence names the field. */
MUST_CHECK int pods_check(const Tutti__V1__Pods *m, struct err *e);

#endif
