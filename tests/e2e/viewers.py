# SPDX-License-Identifier: Apache-2.0
"""A session that was captured into a bucket (versitygw), opened by stock viewers: fetched, mounted, and read from the bucket itself. Hosts and
events are counted against the manifest. Run by tests/viewers.sh.

    viewers.py [XPROF_RS]      # the program; without, that way is left out
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from servers import Versitygw  # noqa: E402
from lib import xspace  # noqa: E402
from lib.cluster import Cluster, main, wait_until  # noqa: E402
from lib.netns import SkipTest  # noqa: E402
from lib.xprof import XProf  # noqa: E402

HOSTS = ("host-a", "host-b", "host-c")
XPROF_RS = sys.argv[1:]


def capture(c, server):
    """The manifest of a session of three hosts with work to record, put into the bucket by grants."""
    c.aggregator("--store", server.url("fleet"), env=server.env)
    for host in HOSTS:
        c.agent(host)
    c.wait_hosts(len(HOSTS))
    c.burst(*HOSTS)
    session = c.tutti("capture", "--duration", "2s", "--run", "nightly", "--json", check=0)[1]["session"]
    return c.tutti("show", session, "--json", check=0)[1]


def count(where, manifest):
    """Every host's file below this folder has the events that the manifest says."""
    for h in manifest["hosts"]:
        events = sum(1 for f in h["files"] for p in xspace.load(where / f).planes for line in p.lines for _ in line.events)
        assert events == h["events"] > 0, (h["host"], events, h["events"])
    return sum(h["events"] for h in manifest["hosts"])


def check_viewer(x, manifest):
    """The viewer lists all hosts, and its trace has each host's events; how many, by host."""
    run = f"nightly/{manifest['session']}"
    assert run in x.get("runs"), x.get("runs")
    assert sorted(h["hostname"] for h in x.get("hosts", run=run, tag="trace_viewer@")) == sorted(HOSTS)
    trace = x.get("data", run=run, tag="trace_viewer@", hosts=",".join(HOSTS), resolution=100000)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in trace if e.get("name") == "process_name"}
    shown, bursts = dict.fromkeys(HOSTS, 0), dict.fromkeys(HOSTS, 0)
    for e in trace:
        host = next((h for h in HOSTS if names.get(e.get("pid"), "").startswith(h)), None)
        if host and "ts" in e:
            shown[host] += 1
            bursts[host] += e.get("name", "").startswith("burst ")
    assert all(bursts.values()), (bursts, names)
    return shown


def mount(c, server):
    """The bucket below a folder, by Debian's s3fs."""
    if not os.path.exists("/dev/fuse") or os.geteuid():
        return None
    keys, folder = c.dir / "keys", c.dir / "mounted"
    keys.write_text(f"{server.env['AWS_ACCESS_KEY_ID']}:{server.env['AWS_SECRET_ACCESS_KEY']}")
    keys.chmod(0o600)
    folder.mkdir()
    p = c.start("burst-s3fs", ["s3fs", "bucket:/fleet", folder, "-f", "-o", f"url={server.endpoint}", "-o", "use_path_request_style", "-o", f"passwd_file={keys}",
                               "-o", "endpoint=us-east-1"])
    wait_until("the mount", lambda: p.poll() is not None or os.path.ismount(folder))
    assert p.poll() is None, c.log("burst-s3fs")
    return folder


def test_viewers():
    with Versitygw() as server, Cluster() as c:
        manifest = capture(c, server)
        start = lambda name, argv: c.start(f"burst-{name}", argv)
        c.tutti("fetch", manifest["session"], c.dir / "fetched/nightly", check=0)
        fetched = c.dir / "fetched/nightly/plugins/profile" / manifest["session"]
        print(f"     fetched: {count(fetched, manifest)} events as in the manifest")
        print(f"     XProf, fetched: {check_viewer(XProf(start, c.dir / 'fetched'), manifest)} slices")
        folder = mount(c, server)
        if folder:
            try:
                there = folder / "profiles/nightly/plugins/profile" / manifest["session"]
                wait_until("the files", there.is_dir)
                print(f"     mounted: {count(there, manifest)} events as in the manifest")
                print(f"     XProf, mounted: {check_viewer(XProf(start, folder / 'profiles'), manifest)} slices")
            finally:
                for name in [n for n in c.processes if n.startswith("burst-xprof")]:
                    c.processes[name].kill()
                    c.processes[name].wait(20)
                subprocess.run(["umount", "-l", folder], check=True, timeout=60)
        else:
            print("     mounted: left out, there is no /dev/fuse, or this is not root")
        if XPROF_RS:
            env = {**server.env, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
            rs = XProf(lambda name, argv: c.start(f"burst-{name}", argv, env=env), "s3://bucket/fleet/profiles", XPROF_RS)
            print(f"     xprof-rs, s3://: {check_viewer(rs, manifest)} slices")


main(test_viewers)
