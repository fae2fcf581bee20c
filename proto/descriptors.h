/* SPDX-License-Identifier: Apache-2.0 */
/* A serialized FileDescriptorSet of all .proto files, for gRPC reflection. Made by the build. */
#ifndef PROTO_DESCRIPTORS_H
#define PROTO_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t proto_descriptors[];
extern const size_t proto_descriptors_len;

#endif
