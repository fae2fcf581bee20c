/* SPDX-License-Identifier: Apache-2.0 */
/* All limits on the messages and requests of peers. */
#ifndef PROTO_LIMITS_H
#define PROTO_LIMITS_H

/* Messages. */
#define LIMIT_CONTROL_BYTES	   (1 << 20) /* one control message, either way */
#define LIMIT_CHUNK_BYTES	   (1 << 20) /* data of one upload chunk */
#define LIMIT_UPLOAD_MESSAGE_BYTES (LIMIT_CHUNK_BYTES + 4096)
#define LIMIT_GRANT_BYTES \
	(64 << 10) /* an UploadReply: a URL may hold a session's token of 16 KiB */
#define LIMIT_PROFILE_BYTES	(128 << 10) /* a tensorflow.ProfileRequest; half of it are options */
#define LIMIT_SMALL_BYTES	4096 /* a message of a few numbers and one name */
#define LIMIT_ENROL_BYTES	(32 << 10) /* an EnrolRequest; a token may have 16 KiB */
#define LIMIT_LOCAL_REPLY_BYTES (16 << 20) /* of an agent to a process on its host */
#define LIMIT_REQUEST_BYTES	(4 << 20) /* a request to a public service: gRPC's default */
#define LIMIT_RESPONSE_BYTES \
	2147483647L /* one unary response: the largest that protobuf and gRPC peers accept */
#define LIMIT_LOCAL_BYTES      (64 << 10) /* one message through the local socket */
#define LIMIT_MARK_BYTES       1024 /* the text of a mark */
#define LIMIT_OPTIONS_BYTES    (64 << 10) /* serialized tensorflow.ProfileOptions */
#define LIMIT_HTTP_BODY_BYTES  (1 << 20) /* body of a POST */
#define LIMIT_HTTP_QUERY_BYTES 8192 /* query string */
#define LIMIT_HTTP_QUERY_KEYS  64

/*
 * The most fields of one message, counted before it is unpacked (proto/message.h). Fields of submessages,
 * unknown fields and each element of a repeated field count. A Hello has at most 3,800 (256 settings of 8
 * fields).
 */
#define LIMIT_CONTROL_FIELDS 4096
#define LIMIT_UPLOAD_FIELDS  (2 * LIMIT_HOST_FILES + 64)
#define LIMIT_PROFILE_FIELDS 1024 /* of a ProfileRequest and of its options */
#define LIMIT_SMALL_FIELDS   64

/*
 * The most memory for one host in the aggregator: the bytes of its last Hello or Status, plus
 * LIMIT_HOST_ITEM_BYTES for each label, tracer, setting and capture in it. A real agent needs a tenth.
 */
#define LIMIT_HOST_BYTES      (64 << 10)
#define LIMIT_HOST_ITEM_BYTES 96

/* Names. */
#define LIMIT_HOST_NAME	      128 /* characters of a host name */
#define LIMIT_RUN_NAME	      128
#define LIMIT_SESSION_NAME    64
#define LIMIT_CLIENT_SESSION  256 /* the session name of a client of ProfilerService */
#define LIMIT_LABELS	      64 /* labels of one host */
#define LIMIT_TRACERS	      64 /* tracers of one host */
#define LIMIT_JOBS	      32 /* jobs of one host that are listed */
#define LIMIT_SETTINGS	      64 /* settings that one capture gives */
#define LIMIT_NOTES	      8 /* of one Arm */
#define LIMIT_TRACER_SETTINGS 256 /* that all tracers of one host list */
#define LIMIT_LABEL_BYTES     256
#define LIMIT_PODS	      512 /* of one host that its agent is told */
#define LIMIT_POD_CONTAINERS  16
#define LIMIT_POD_TEXT_BYTES  384 /* a container's id and name, or another text of a pod */

/* Numbers. */
#define LIMIT_HOSTS	     20000 /* hosts one aggregator keeps */
#define LIMIT_CAPTURES	     64 /* captures in progress at once */
#define LIMIT_QUEUED	     64 /* captures that wait for others */
#define LIMIT_DURATION_NS    (3600 * 1000000000LL) /* one capture */
#define LIMIT_BACK_NS	     (600 * 1000000000LL) /* from one agent of a host to the next */
#define LIMIT_GRACE_NS	     (7200 * 1000000000LL) /* of one capture: twice the longest window */
#define LIMIT_TRACER_LEAD_NS INT64_C(15000000000) /* PyTorch needs 9 s */
#define LIMIT_TIME_NS \
	4000000000000000000LL /* Unix ns, until 2096: sums of two times cannot overflow */
#define LIMIT_WAIT_NS		(7 * 86400 * 1000000000LL) /* of a capture, in the queue */
#define LIMIT_STEP		1000000000000000LL /* the number of a training step */
#define LIMIT_STEPS		1000000 /* training steps of one capture */
#define LIMIT_XSPACE_FILE_BYTES 2000000000LL /* one <host>.xplane.pb: readers refuse 2 GiB */
#define LIMIT_OBSERVATION_BYTES (256 << 10) /* of one host in one capture */
#define LIMIT_HOST_FILES	64 /* of one host in one session */
#define LIMIT_XSPACE_DEPTH	8 /* nested messages in an XSpace */

/* Time probes per second, summed over the hosts of one capture. */
#define LIMIT_PROBES_PER_S 40000
#define LIMIT_PROBE_GAP_MS 10000 /* the longest gap between its probes that a host accepts */

/* Clock breaks of a host in one message; older ones are only counted. */
#define LIMIT_CLOCK_STEPS 16

#endif
