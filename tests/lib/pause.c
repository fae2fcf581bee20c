/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of each pod in tests/cluster.sh: waits, and takes the exit codes of orphans. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_stop(int sig)
{
	(void)sig;
	_exit(0);
}

static void on_child(int sig)
{
	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

int main(void)
{
	signal(SIGTERM, on_stop);
	signal(SIGINT, on_stop);
	signal(SIGCHLD, on_child);
	for (;;)
		pause();
}
