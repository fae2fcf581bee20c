/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pods/local_pods.h"
#include "agent/pods/pod_view.h"
#include "base/clean_text.h"
#include "base/mem.h"
#include "net/address.h"

int profiler_check_target(const char *listen, const char *address, struct err *e)
{
	char host[ADDRESS_HOST_BYTES], own_host[ADDRESS_HOST_BYTES];
	int port, own_port;
	int rc = address_split(address, host, &port, e);

	if (rc)
		return err_prefix(e, "--profiler");
	if (!listen || !*listen || !address_is_loopback(host) ||
	    address_split(listen, own_host, &own_port, NULL) || own_port != port)
		return 0;
	return err_set(e, ERR_INVALID,
		       "--profiler %s is this agent's own --listen: name another address", address);
}

/* False if the pod has no server, or its address is none. */
static bool describe(const struct local_pod *p, int64_t pid, struct pod_profiler *out)
{
	char host[ADDRESS_HOST_BYTES], name[512];
	bool is_v6 = strchr(p->address, ':') != NULL;
	int port;

	if (!p->profiler_port || p->opted_out || !*p->address ||
	    snprintf(out->address, sizeof(out->address), is_v6 ? "[%s]:%d" : "%s:%d", p->address,
		     p->profiler_port) >= (int)sizeof(out->address) ||
	    address_split(out->address, host, &port, NULL))
		return false;
	out->port = p->profiler_port;
	out->pid = pid;
	snprintf(name, sizeof(name), "pod %s", p->name);
	clean_text(out->comm, sizeof(out->comm), name, strlen(name));
	return true;
}

size_t profiler_list_pods(const struct local_pods *pods, struct pod_profiler **out)
{
	struct pod_view *view = local_pods_view(pods);
	size_t n_pods, n = 0;
	const struct local_pod *v = pod_view_pods(view, &n_pods);

	*out = xcalloc(n_pods + 1, sizeof(**out));
	for (size_t i = 0; i < n_pods; i++)
		n += describe(&v[i], pod_view_profiler(view, i), &(*out)[n]);
	pod_view_release(view);
	return n;
}
