# SPDX-License-Identifier: Apache-2.0
"""Agents put their files into a bucket by grants: what the aggregator's own traffic is, and what agents know; and without grants."""
import signal

from lib.grants import HOSTS, capture, check_files, start
from fake_s3 import KEYS, FakeS3
from lib.cluster import SLOW, Cluster, main
from lib.memory import knows


def bytes_with_keys(s3, session):
    """What the aggregator sent and received because of this session."""
    return sum(n for (granted, path), (_, n) in s3.traffic.items() if not granted and (session in path or path.endswith("/bucket")))


def test_no_byte_through_the_aggregator():
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3)
        one, three = capture(c, hosts="host-a"), capture(c)
        of_files = [(granted, path) for granted, path in s3.traffic if path.endswith(".xplane.pb")]
        assert len(of_files) == 4 and all(granted for granted, _ in of_files), of_files  # until here no file was read
        per_host = (bytes_with_keys(s3, three["session"]) - bytes_with_keys(s3, one["session"])) / 2
        assert per_host < 2000, per_host
        _, shown = c.tutti("show", three["session"], "--json", check=0)
        assert not shown["causality"]["skipped"], shown["causality"]
        check_files(c, s3, three)
        secrets = [secret.encode() for secret, _ in KEYS.values()]
        for host in HOSTS:
            assert not knows(c.processes[host].pid, secrets), f"{host} has the keys"
        assert knows(c.processes["aggregator"].pid, secrets), "the search finds nothing"
        assert "X-Amz-Signature" not in c.logs_text()
        print(f"the aggregator's own traffic with the store: {per_host:.0f} bytes for each further host")


def test_via_aggregator():
    with FakeS3() as s3, Cluster() as c:
        s3.short_pages = False
        start(c, s3, "--upload", "via-aggregator", hosts=HOSTS[:1])
        check_files(c, s3, capture(c), HOSTS[:1])
        assert not any(granted for granted, _ in s3.traffic), s3.traffic
        assert c.kill("aggregator", signal.SIGTERM) is None
        assert "use auto or via-aggregator" in refused_flag(c)


def refused_flag(c):
    p = c.start("wrong", [c.processes["aggregator"].args[0], "--upload", "around", "--store", "mem://x", "--http", "127.0.0.1:0", "--grpc",
                          "127.0.0.1:0", "--probe", "127.0.0.1:0", "--spool", c.dir / "wrong-spool"])
    p.expected = False
    assert p.wait(20 * SLOW)
    return c.log("wrong")


main(test_no_byte_through_the_aggregator, test_via_aggregator)
