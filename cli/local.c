/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/local.h"

#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/local_socket.h"
#include "proto/limits.h"
#include "proto/message.h"

#define CALL_TIMEOUT_NS (15 * NS_PER_S)

/* Cleans in place: the text never becomes longer. protobuf-c's text for an absent field is constant and
 * stays. */
static void clean(char *text)
{
	size_t len = strlen(text);
	char *copy;

	if (!len)
		return;
	copy = xstrndup(text, len);
	clean_text(text, len + 1, copy, len);
	free(copy);
}

static int unpack_reply(const char *url, const uint8_t *data, size_t len,
			Tutti__V1__LocalReply **reply, struct err *e)
{
	ProtobufCMessage *m;
	int rc;

	if (message_unpack(&m, &tutti__v1__local_reply__descriptor, LIMIT_LOCAL_REPLY_BYTES,
			   LIMIT_SMALL_FIELDS, data, len, NULL))
		return err_set(e, ERR_PEER, "%s: the answer cannot be decoded; is this an agent?",
			       url);
	*reply = (Tutti__V1__LocalReply *)m;
	clean((*reply)->detail);
	clean((*reply)->session);
	clean((*reply)->json);
	if ((*reply)->ok)
		return 0;
	rc = err_set(e, ERR_PEER, "%s", (*reply)->detail);
	tutti__v1__local_reply__free_unpacked(*reply, NULL);
	return rc;
}

int local_call(const char *url, const Tutti__V1__LocalRequest *request,
	       Tutti__V1__LocalReply **reply, struct err *e)
{
	size_t len = tutti__v1__local_request__get_packed_size(request), answer_len;
	uint8_t *bytes = xmalloc(len), *answer = NULL;
	struct local_client *socket = NULL;
	int rc;

	tutti__v1__local_request__pack(request, bytes);
	rc = local_client_open(&socket, url, e);
	if (!rc)
		rc = local_client_call(socket, bytes, len, CALL_TIMEOUT_NS, &answer, &answer_len,
				       e);
	if (!rc)
		rc = unpack_reply(url, answer, answer_len, reply, e);
	local_client_close(socket);
	free(answer);
	free(bytes);
	return rc;
}
