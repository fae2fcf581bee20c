#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test that looks at all programs of the machine where it sees none but its own: for root; others run it as it is.
# Its temporary files are in a folder of their own, because the names of others' hold process ids.
#
#   own_processes.sh [--python] COMMAND...     --python: beside a program of Python with nine threads
if [ "$1" = --python ]; then
	shift
	set -- sh -c '/usr/bin/python3 -c "
import threading, time
def rest():
    while True:
        time.sleep(0.001)
for _ in range(8):
    threading.Thread(target=rest, daemon=True).start()
end = time.monotonic() + 110
while time.monotonic() < end:
    time.sleep(0.001)
" & "$@"; status=$?; kill $!; exit $status' sh "$@"
fi
if [ "$(id -u)" -ne 0 ] || ! unshare --pid --fork --mount-proc true 2>/dev/null; then
	exec "$@"
fi
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/tutti-own-$$-XXXXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
chmod 1777 "$TMPDIR"
unshare --pid --fork --mount-proc --kill-child "$@"
