# SPDX-License-Identifier: Apache-2.0
"""The manifests on the cluster of tests/cluster.sh: check.py KUBECTL FOLDER [PART...]. Each part brings up what it looks at, and removes it."""
import sys

import chart
import dev
import enrol
import http_ports
import joins
import overlays
import replicas
import rolling
from bed import say

PARTS = {"overlays": overlays.check, "dev": dev.check, "rolling": rolling.check, "enrol": enrol.check, "joins": joins.check,
         "http": http_ports.check, "replicas": replicas.check, "chart": chart.check}

if __name__ == "__main__":
    for name in sys.argv[3:] or PARTS:
        PARTS[name]()
    say("passed")
