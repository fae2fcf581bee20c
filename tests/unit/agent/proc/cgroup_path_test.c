/* SPDX-License-Identifier: Apache-2.0 */
/* The pod and the container that the text of /proc/PID/cgroup names, as each runtime and each driver writes it. */
#include "agent/proc/cgroup_path.h"
#include "base/mem.h"
#include "tests/lib/check.h"

#define ID	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER	"fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD	"3f2c1a2b-0000-4000-8000-0123456789ab"
#define POD_LOW "3f2c1a2b_0000_4000_8000_0123456789ab"
#define SLICE	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_LOW ".slice"

int main(void)
{
	static const struct {
		const char *text, *pod, *container;
	} cases[] = {
		/* cgroup v2, driver systemd: containerd, CRI-O */
		{ "0::" SLICE "/cri-containerd-" ID ".scope\n", POD, ID },
		{ "0::" SLICE "/crio-" ID ".scope\n", POD, ID },
		/* as the agent's container sees it, from its own cgroup namespace */
		{ "0::/../../kubepods-besteffort-pod" POD_LOW ".slice/cri-containerd-" ID
		  ".scope\n",
		  POD, ID },
		{ "0::/../cri-containerd-" ID ".scope\n", "", ID },
		/* driver cgroupfs, Docker's shim, a static pod */
		{ "0::/kubepods/burstable/pod" POD "/" ID "\n", POD, ID },
		{ "0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID "\n",
		  "0123456789abcdef0123456789abcdef", ID },
		/* containerd that takes systemd's path for its own */
		{ "0::/system.slice/containerd.service/kubepods-burstable-pod" POD_LOW
		  ".slice:cri-containerd:" ID "\n",
		  POD, ID },
		/* cgroup v1: a line for each controller; one of them is enough */
		{ "12:pids:/\n11:memory:/kubepods/besteffort/pod" POD "/" ID
		  "\n1:name=systemd:/kubepods/besteffort/pod" POD "/" ID "\n0::/\n",
		  POD, ID },
		/* Docker and Podman alone */
		{ "0::/system.slice/docker-" ID ".scope\n", "", ID },
		{ "2:cpu,cpuacct:/docker/" ID "\n", "", ID },
		{ "0::/machine.slice/libpod-" ID ".scope/container\n", "", ID },
		/* containers in a container: the outer one is the pod's */
		{ "0::" SLICE "/cri-containerd-" ID ".scope/docker/" OTHER "\n", POD, ID },
		{ "0::" SLICE "/cri-containerd-" ID ".scope/init.scope\n", POD, ID },
		/* the monitor of a container, other processes, nonsense */
		{ "0::" SLICE "/crio-conmon-" ID ".scope\n", POD, "" },
		{ "0::/system.slice/ssh.service\n", "", "" },
		{ "0::/\n", "", "" },
		{ "", "", "" },
		{ "x\n::\n:\n", "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cgroup_owner o;
		bool found = cgroup_text_read(&o, cases[i].text);

		CHECK_STR(o.pod, cases[i].pod);
		CHECK_STR(o.container, cases[i].container);
		CHECK_EQ(found, *cases[i].pod || *cases[i].container);
	}
	return 0;
}
