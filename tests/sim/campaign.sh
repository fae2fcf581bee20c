#!/bin/bash
# The long version of the simulation: a kill and outages at each call of the store in a capture's life, many seeds,
# also with takeovers, then a thousand agents, and snapshots of them. Prints what fails with the command that plays it again.
#
#   tests/sim/campaign.sh [FROM..TO]
set -e
cd "$(dirname "$0")/../.."
cmake --preset release >/dev/null
cmake --build --preset release --target tutti-sim
status=0
time -p build/release/bin/tutti-sim --crash all || status=1
time -p build/release/bin/tutti-sim --seeds "${1:-1..10000}" || status=1
time -p build/release/bin/tutti-sim --takeover --seeds 1..5000 || status=1
time -p build/release/bin/tutti-sim --takeover --machines --seeds 1..5000 || status=1
time -p build/release/bin/tutti-sim --seed 1 --agents 1000 --minutes 2 || status=1
time -p build/release/bin/tutti-sim --snapshots --seeds 1..20 --agents 1000 --minutes 1 || status=1
exit $status
