#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The manifests on a real Kubernetes of one node: API server, controllers, scheduler, containerd and kubelet, built from their Go modules the
# first time (10 CPU minutes, 4.5 GB, kept beside the servers of tests/servers.sh). What it shows is in tests/cluster/check.py.
#
#   tests/cluster.sh [PART...]          builds what is missing, brings the cluster up, checks, takes it down
#   tests/cluster.sh --keep [PART...]   leaves the cluster up: its kubeconfig is build/cluster/run/kubeconfig
#   tests/cluster.sh --down             takes it down
#
# PARTs, all by default: overlays (each as the API server takes it), dev (rights, people, jobs), rolling (updates under captures), enrol
# (certificates by pods' tokens), joins (a thousand of them at once), http (ports of the overlays that open HTTP), replicas (two aggregators),
# chart (helm install).
#
# Needs root, the packages containerd, runc and containernetworking-plugins, and nothing else that opens /run/tutti/agent.ipc: the agents'
# pods mount this machine's /run/tutti, and leave nothing in /var/lib/tutti-node.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
servers=${TUTTI_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti-servers}
work=$top/build/cluster
python=${TUTTI_PYTHON:-$top/.venv/bin/python}

say() { echo "cluster: $*"; }
[ "${1:-}" != --down ] || exec "$top/tests/lib/k8s_up.sh" --down "$work/run"
keep=false
[ "${1:-}" != --keep ] || { keep=true; shift; }
for program in containerd runc ctr ip openssl; do
	command -v $program >/dev/null || { say "$program is missing: apt-get install containerd runc containernetworking-plugins iproute2 openssl"; exit 1; }
done
mkdir -p "$work"

# Go comes with the servers of the other tests.
if ! [ -x "$servers/kubernetes/bin/kubectl" ]; then
	[ -x "$servers/tools/bin/go" ] || "$top/tests/servers.sh" install
	nice "$top/tests/lib/k8s_build.sh" "$servers/kubernetes" "$servers/tools/bin/go"
fi

say "building the programs and their images"
cd "$top"
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-agent tutti-aggregator tutti >"$work/build.log" || { tail -n 20 "$work/build.log"; exit 1; }
deploy/images/build.sh --out "$work/images" --roots "$work/roots.new" tutti-agent tutti-aggregator
rm -rf "$work/roots"
mv "$work/roots.new" "$work/roots"
gcc -O2 -static tests/lib/pause.c -o "$work/pause"
gcc -O2 -static -pthread -I. tests/e2e/annotator.c -o "$work/annotator"
tests/lib/image_tar.sh "$work/pause.tar" localhost/pause:1 "$work/pause"
tests/lib/image_tar.sh "$work/job.tar" localhost/job:1 "$work/annotator" 50

say "starting Kubernetes"
[ $keep = true ] || trap 'say "taking it down"; "$top/tests/lib/k8s_up.sh" --down "$work/run"' EXIT
tests/lib/k8s_up.sh "$servers/kubernetes/bin" "$work/run" "$work"/{pause,job}.tar "$work"/images/tutti-{agent,aggregator}.tar
say "node Ready after $SECONDS s in all"
"$python" tests/cluster/check.py "$servers/kubernetes/bin/kubectl" "$work" "$@"
