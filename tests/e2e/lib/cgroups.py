# SPDX-License-Identifier: Apache-2.0
"""Cgroups as the kubelet makes them, for processes of a test that are to be of a pod.

    with PodCgroup(pod_document) as cgroup:
        cgroup.take(process.pid)

`path` is None where this machine lets no cgroup be made; then nothing is taken.
"""
import os
import pathlib
import time

ROOTS = [pathlib.Path(p) for p in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")]


class PodCgroup:
    def __init__(self, doc):
        self.uid = doc["metadata"]["uid"]
        self.container = doc["status"]["containerStatuses"][0]["containerID"].split("://")[1]
        self.path = self.pod = None

    def __enter__(self):
        for root in ROOTS:
            self.pod = root / f"tutti-test-{os.getpid()}-pod{self.uid}"
            try:
                if (root / "cgroup.controllers").exists():
                    (self.pod / self.container).mkdir(parents=True)
                    self.path = self.pod / self.container
                    return self
            except OSError as e:
                print(f"     no cgroup of the test's own: {e}")
        return self

    def take(self, pid):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(pid))

    def __exit__(self, *_):
        for folder in filter(None, (self.path, self.path and self.pod)):
            for _ in range(100):  # a process that was killed leaves a moment later
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)
