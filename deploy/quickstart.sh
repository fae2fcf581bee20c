#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tutti on this machine in one command: installs what the build needs, builds, starts one aggregator and
# three agents with different (injected) clock errors, starts work to record, captures two seconds, and
# serves the result until Ctrl-C.
#
#   deploy/quickstart.sh [--once] [--json] [--jax] [--xprof] [--store s3] [--duration 2s] [--dir DIRECTORY]
#
#   --once       capture once, stop what was started, keep the session's directory, exit
#   --json       one JSON document on stdout, everything else on stderr
#   --jax        also run two real JAX jobs and capture their own profiles
#   --xprof      also run XProf over the sessions; the page links each of them to it
#   --store s3   keep sessions in a bucket of an S3 server that is started here (versitygw; built the first time, which takes
#                minutes); the session is fetched from it
#   --duration   how long to capture
#   --dir        where sessions, logs and spools go (default: build/quickstart)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
once=false json=false jax=false xprof=false store=file duration=2s dir=$root/build/quickstart

usage() { sed -n '3,/^set /p' "$0" | sed -n 's/^# \{0,1\}//p'; }

while [ $# -gt 0 ]; do
	case $1 in
	--once) once=true ;;
	--json) json=true ;;
	--jax) jax=true ;;
	--xprof) xprof=true ;;
	--store) store=$2; shift ;;
	--duration) duration=$2; shift ;;
	--dir) dir=$2; shift ;;
	-h | --help) usage; exit 0 ;;
	*) echo "quickstart: unknown flag '$1'; see --help" >&2; exit 2 ;;
	esac
	shift
done

case $store in file | s3) ;; *) echo "quickstart: --store '$store': use file or s3" >&2; exit 2 ;; esac

if $xprof && [ $store != file ]; then echo "quickstart: --xprof reads the store's folder: it does not go with --store $store" >&2; exit 2; fi

note() { echo "quickstart: $*" >&2; }

# ---- set-up ----

"$root/tests/setup.sh" build >&2
if $jax || $xprof; then "$root/tests/setup.sh" jax >&2; fi
if [ $store = s3 ]; then "$root/tests/servers.sh" install >&2; fi
note "building (build/release)"
(cd "$root" && cmake --preset release >/dev/null &&
	cmake --build --preset release --target tutti-aggregator tutti-agent tutti burst) >&2
bin=$root/build/release/bin
mkdir -p "$dir/logs"
dir=$(cd "$dir" && pwd)

# ---- ports: the defaults, or the next block that is free ----

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

base=7400
until port_is_free $base && port_is_free $((base + 1)) && port_is_free $((base + 10)) &&
	port_is_free $((base + 11)) && port_is_free $((base + 12)) && port_is_free $((base + 14)); do
	base=$((base + 20))
	[ $base -lt 8400 ] || { note "no free ports between 7400 and 8400"; exit 1; }
done
export TUTTI_SERVER=http://127.0.0.1:$base

# ---- start and stop ----

pids=()
stop_all() {
	local i
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		kill -TERM "${pids[i]}" 2>/dev/null || true
		wait "${pids[i]}" 2>/dev/null || true
	done
	pids=()
}
trap stop_all EXIT
trap 'exit 130' INT TERM

run() { # run LOGNAME COMMAND...
	local log=$dir/logs/$1.log
	shift
	"$@" >"$log" 2>&1 &
	pids+=($!)
}

until_true() { # until_true SECONDS WHAT COMMAND...
	local left=$(($1 * 10)) what=$2
	shift 2
	until "$@"; do
		left=$((left - 1))
		if [ $left -le 0 ]; then
			note "$what did not happen; see $dir/logs"
			tail -n 5 "$dir"/logs/*.log >&2
			exit 1
		fi
		sleep 0.1
	done
}

port_is_taken() { ! port_is_free "$1"; }
aggregator_is_ready() { curl -fs -m 2 -o /dev/null "$TUTTI_SERVER/readyz"; }
hosts_are_calibrated() {
	[ "$("$bin/tutti" hosts --json 2>/dev/null |
		jq '[.hosts[] | select(.state == "connected" and .clock.calibrated)] | length')" = 3 ]
}

store_url=file://$dir/store
if [ $store = s3 ]; then
	note "starting an S3 server on port $((base + 12)) (its objects are in $dir/s3)"
	mkdir -p "$dir/s3/bucket" "$dir/s3-users"
	export AWS_ACCESS_KEY_ID=quickstart AWS_SECRET_ACCESS_KEY AWS_EC2_METADATA_DISABLED=true
	AWS_SECRET_ACCESS_KEY=$(od -An -N 16 -tx1 /dev/urandom | tr -d ' \n')
	read -ra server <<<"$("$root/tests/servers.sh" command versitygw)"
	ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY run s3 "${server[@]}" --port 127.0.0.1:$((base + 12)) \
		--region us-east-1 --iam-dir "$dir/s3-users" posix "$dir/s3"
	store_url="s3://bucket/quickstart?endpoint=http://127.0.0.1:$((base + 12))&region=us-east-1"
	until_true 20 "the S3 server's start" port_is_taken $((base + 12))
fi

viewers=()
if $xprof; then
	note "starting XProf on port $((base + 14))"
	mkdir -p "$dir/store/profiles"
	run xprof "$root/.venv/bin/xprof" --logdir "$dir/store/profiles" --port $((base + 14)) --grpc_port $((base + 15))
	viewers=(--xprof-url "http://127.0.0.1:$((base + 14))")
fi

note "starting the aggregator and three agents (logs in $dir/logs)"
run aggregator "$bin/tutti-aggregator" --store "$store_url" --spool "$dir/spool-aggregator" \
	--http 127.0.0.1:$base --grpc 127.0.0.1:$((base + 1)) --probe 127.0.0.1:$((base + 3)) "${viewers[@]}"
until_true 20 "the aggregator's start" aggregator_is_ready

# The aggregator alone has the keys: agents put their files into the bucket by its grants.
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY

hosts=(host-a host-b host-c)
offsets=(0s 5s -3s)
sockets=()
jax_args=()
for i in 0 1 2; do
	socket=ipc://$dir/${hosts[i]}.ipc
	sockets+=("--local-socket=$socket")
	profiler=()
	if $jax && [ $i -lt 2 ]; then
		jax_args+=("$((base + 10 + i))")
		profiler=("--profiler=127.0.0.1:$((base + 10 + i))")
	fi
	# Three agents on one machine would discover the same jobs: each gets its own as a flag.
	run "${hosts[i]}" "$bin/tutti-agent" --host "${hosts[i]}" --aggregator 127.0.0.1:$((base + 1)) \
		--spool "$dir/spool-${hosts[i]}" --listen "" --local-socket "$socket" --discover=false \
		--label "rack=quickstart" --test-clock-offset "${offsets[i]}" "${profiler[@]}"
done
until_true 30 "the agents' clock calibration" hosts_are_calibrated

note "starting work to record: bursts that begin at multiples of 0.5 s of the wall clock"
run burst "$bin/burst" "${sockets[@]}"
note "starting a training job on each host; that of host-c is 20 ms late at each step"
late=(0s 0s 20ms)
for i in 0 1 2; do
	run "train-${hosts[i]}" "$bin/burst" --steps --period 200ms --work 20ms --late "${late[i]}" "${sockets[i]}"
done
for port in "${jax_args[@]}"; do
	note "starting a JAX job with its profiler on port $port"
	rm -f "$dir/jax-$port.ready"
	run "jax-$port" "$root/.venv/bin/python" "$root/tests/e2e/jax_job.py" --port "$port" --seconds 3600 \
		--port-file "$dir/jax-$port.ready" --ready-step 3
done
for port in "${jax_args[@]}"; do
	until_true 120 "the third step of the JAX job on port $port" test -e "$dir/jax-$port.ready"
done

# ---- capture ----

note "capturing $duration on all hosts"
status=0
result=$("$bin/tutti" capture --duration "$duration" --run quickstart --json) || status=$?
if [ -z "$result" ]; then
	note "the capture failed (exit $status); see $dir/logs"
	exit 1
fi
path=$(jq -r .path <<<"$result") logdir=$dir/store/profiles
if [ $store = s3 ]; then
	logdir=$dir/fetched
	path=$("$bin/tutti" fetch "$(jq -r .session <<<"$result")" "$logdir" --json | jq -r .directory)
	result=$(jq --arg path "$path" '.path = $path' <<<"$result")
fi
if $json; then
	jq '{session, run, path, hosts: [.hosts[] | {host, state, events, bytes, clock_bound_ns}]}' <<<"$result"
else
	"$bin/tutti" show "$(jq -r .session <<<"$result")"
fi
if $once; then
	note "the session is in $path"
	exit $status
fi
note "open $TUTTI_SERVER/s/$(jq -r .session <<<"$result") in a browser; the keys l and Enter lead to the late host"
if $xprof; then
	until_true 120 "XProf's start" port_is_taken $((base + 14))
	note "or in XProf, at http://127.0.0.1:$((base + 14)) (the page has a link)"
else
	note "or in XProf: xprof --logdir $logdir --port 8791"
fi
note "capture again with: TUTTI_SERVER=$TUTTI_SERVER $bin/tutti capture"
note "serving until Ctrl-C"
wait "${pids[0]}"
