/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: whoever reads the file with inode $STUCK_INODE makes the file $STUCK_MARK and never comes back, as
 * from a disk that does not answer. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void stick_to(int fd)
{
	const char *inode = getenv("STUCK_INODE"), *mark = getenv("STUCK_MARK");
	struct stat st;

	if (!inode || !mark || fstat(fd, &st) || st.st_ino != strtoull(inode, NULL, 10))
		return;
	close(open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	for (;;)
		pause();
}

ssize_t pread(int fd, void *out, size_t len, off_t offset)
{
	stick_to(fd);
	return syscall(SYS_pread64, fd, out, len, offset);
}

ssize_t read(int fd, void *out, size_t len)
{
	stick_to(fd);
	return syscall(SYS_read, fd, out, len);
}
