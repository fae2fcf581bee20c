# SPDX-License-Identifier: Apache-2.0
"""A job of Slurm, whose tasks srun began: only their environment is Slurm's. Agents in the job have its labels; planes say which job and
which rank they are of."""
import json
import os
import sys

from lib import xspace
from lib.cluster import Cluster, is_whole, main, wait_until

JOB = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "my-train", "SLURM_JOB_NODELIST": "node[1-2]"}
SPIN = "import time\nprint('begun', flush=True)\nwhile True:\n    sum(range(20000))\n    time.sleep(0)\n"


def spin(c, name, **more):
    p = c.start(f"burst-{name}", ["nice", "-n", "19", sys.executable, "-c", SPIN], env={**JOB, **more})
    wait_until(f"{name} to begin", lambda: c.log(f"burst-{name}"))
    return p.pid


def test_job():
    with Cluster() as c:
        task = spin(c, "task", SLURM_STEP_ID="0", SLURM_PROCID="12", SLURMD_NODENAME="node1")
        batch = spin(c, "batch", SLURM_PROCID="0", SLURMD_NODENAME="node1")
        c.aggregator()
        other = {k: os.environ.pop(k) for k in [*JOB, "SLURMD_NODENAME"] if k in os.environ}
        try:
            os.environ.update(JOB)
            c.agent("node1", "--python-hz", "50", tracers="python,metrics")
        finally:
            for name in JOB:
                del os.environ[name]
            os.environ.update(other)
        c.agent("node7", tracers="metrics")
        c.wait_hosts(2)
        assert {h: doc["labels"] for h, doc in c.hosts().items()} == {"node1": {"slurm_job": "4711", "job": "my-train"}, "node7": {}}
        doc = c.tutti("capture", "--job", "my-train", "-d", "1s", "--json")[1]
        assert [h["host"] for h in doc["hosts"] if is_whole(h)] == ["node1"], doc
        by_id = c.tutti("capture", "--hosts", "slurm_job=4711", "-d", "100ms", "--json")[1]
        assert [h["host"] for h in by_id["hosts"] if is_whole(h)] == ["node1"], by_id

        space = xspace.load(next(c.store.rglob(f"{doc['session']}/node1.xplane.pb")))
        of = {p.name: xspace.stats(p) for p in space.planes}
        expected = {"job": "4711", "rank": 12, "node": "node1", "nodes": "node[1-2]"}
        python = of[f"/host:CPU python [{task}]"]
        assert expected.items() <= python.items() and "pod" not in python, python
        python = of[f"/host:CPU python [{batch}]"]
        assert python["job"] == "4711" and "rank" not in python, python
        c.tutti("export", doc["session"], "--format", "json", "-o", c.dir / "out", check=0)
        names = {e["args"]["name"] for e in json.loads(next((c.dir / "out").iterdir()).read_text())["traceEvents"] if e.get("name") == "process_name"}
        assert {f"node1 /host:CPU python [{task}] (rank 12)", f"node1 /host:CPU python [{batch}]"} <= names, names


if __name__ == "__main__":
    main(test_job)
