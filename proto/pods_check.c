/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pods_check.h"

#include <string.h>

#include "proto/control_check.h"
#include "proto/limits.h"

static int bad(const char *field, struct err *e)
{
	return err_set(e, ERR_INVALID, "field %s is out of range or malformed", field);
}

static bool is_container(const char *text)
{
	return strspn(text, "0123456789abcdef") == POD_CONTAINER_ID_CHARS &&
	       text[POD_CONTAINER_ID_CHARS] == ' ' && text_is_clean(text, LIMIT_POD_TEXT_BYTES);
}

static int check_pod(const Tutti__V1__Pod *p, struct err *e)
{
	const char *const texts[] = { p->uid, p->name, p->namespace_, p->job, p->rank, p->address };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!text_is_clean(texts[i], LIMIT_POD_TEXT_BYTES))
			return bad("pods", e);
	if (!*p->uid || !*p->name)
		return bad("pods.uid", e);
	if (p->rank[strspn(p->rank, "0123456789")] || strlen(p->rank) > 9)
		return bad("pods.rank", e);
	if (p->profiler_port > UINT16_MAX)
		return bad("pods.profiler_port", e);
	if (p->n_containers > LIMIT_POD_CONTAINERS)
		return bad("pods.containers", e);
	for (size_t i = 0; i < p->n_containers; i++)
		if (!is_container(p->containers[i]))
			return bad("pods.containers", e);
	return 0;
}

int pods_check(const Tutti__V1__Pods *m, struct err *e)
{
	int rc = 0;

	if (m->n_pods > LIMIT_PODS || !text_is_clean(m->node, LIMIT_POD_TEXT_BYTES))
		return bad("pods", e);
	for (size_t i = 0; i < m->n_pods && !rc; i++)
		rc = check_pod(m->pods[i], e);
	return rc;
}
