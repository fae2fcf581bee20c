/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <sys/prctl.h>
#include <unistd.h>

pid_t child_fork(int signal)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, signal);
	if (getppid() != parent)
		_exit(1);
	return 0;
}
