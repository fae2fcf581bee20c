#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One-node Ceph with its RADOS Gateway (S3 + STS), from Debian packages: ceph_up.sh DIR [PORT] | ceph_up.sh --down DIR
#
# Needs: apt-get install --no-install-recommends ceph-mon ceph-mgr ceph-osd radosgw ceph-common
# 127.0.0.1 only: the gateway on PORT, the monitor on PORT+1 and PORT+2, the daemons on PORT+10 to PORT+60. Keys AKIDTEST / secretsecret/+test.
# Writes DIR/pids and DIR/env (endpoint and keys, for the tests). Everything lives in memory and below DIR.
set -uo pipefail

down() {
	local pid name
	for file in "$1"/run/*.pid; do
		[ -s "$file" ] || continue
		pid=$(<"$file") name=$(cat "/proc/$pid/comm" 2>/dev/null)
		case $name in ceph-* | radosgw) kill "$pid" && timeout 60 tail --pid="$pid" -f /dev/null & ;; esac
	done
	wait
}
if [ "${1:-}" = --down ]; then
	down "${2:?dir}"
	exit 0
fi

dir=${1:?usage: ceph_up.sh DIR [PORT]} port=${2:-26100}
[ -d "$dir/run" ] && down "$dir"
rm -rf "$dir" && mkdir -p "$dir"/{mgr,mon,osd,run,log,rgw} || exit 1
dir=$(cd "$dir" && pwd)
fsid=$(</proc/sys/kernel/random/uuid) osd_uuid=$(</proc/sys/kernel/random/uuid)
cat >"$dir/ceph.conf" <<-CONF
	[global]
	fsid = $fsid
	mon host = [v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]
	public addr = 127.0.0.1
	cluster addr = 127.0.0.1
	ms bind port min = $((port + 10))
	ms bind port max = $((port + 60))
	keyring = $dir/keyring
	osd pool default size = 1
	osd pool default min size = 1
	osd pool default pg num = 4
	osd pool default pgp num = 4
	osd pool default pg autoscale mode = off
	mon allow pool size one = true
	mon max pg per osd = 2000
	mon data avail warn = 1
	mon data avail crit = 1
	mgr initial modules =
	osd crush chooseleaf type = 0
	osd objectstore = memstore
	memstore device bytes = 2147483648
	run dir = $dir/run
	log file = $dir/log/\$name.log
	admin socket = $dir/run/\$name.asok
	pid file = $dir/run/\$name.pid
	mon data = $dir/mon
	mgr data = $dir/mgr
	osd data = $dir/osd
	rgw data = $dir/rgw
	rgw frontends = beast endpoint=127.0.0.1:$port
	rgw gc obj min wait = 5
	rgw gc processor period = 5
	rgw sts key = abcdefghijklmnop
	rgw s3 auth use sts = true
CONF
export CEPH_CONF=$dir/ceph.conf
key() { ceph-authtool "$dir/keyring" -n "$@" --gen-key >/dev/null; }
ceph-authtool -C "$dir/keyring" -n mon. --gen-key --cap mon 'allow *' >/dev/null
key client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
key client.rgw --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
key mgr.x --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *'
key osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' --cap mgr 'allow profile osd'
monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]" "$dir/monmap" >/dev/null

# wait_for SECONDS COMMAND...: until the command succeeds
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "ceph_up.sh: gave up waiting for: $*; logs in $dir/log" >&2; down "$dir"; exit 1; }
		sleep 0.3
	done
}
osd_is_up() { ceph --connect-timeout 5 osd stat | grep -q '1 up'; }
limit=${LIMIT_S:-120}
ceph-mon --mkfs -i a --monmap "$dir/monmap" --keyring "$dir/keyring" >/dev/null && ceph-mon -i a && ceph-mgr -i x >/dev/null 2>&1
wait_for "$limit" ceph --connect-timeout 20 osd new "$osd_uuid" 0
ceph-osd --mkfs -i 0 --osd-uuid "$osd_uuid" >/dev/null 2>&1
ceph-osd -i 0 >/dev/null 2>&1
wait_for "$limit" osd_is_up
timeout "$limit" radosgw -n client.rgw >/dev/null 2>&1
wait_for "$limit" curl -s -m 2 -o /dev/null "http://127.0.0.1:$port/"
wait_for "$limit" radosgw-admin user create --uid=t --display-name=t --access-key=AKIDTEST --secret=secretsecret/+test --caps='roles=*'
cat >"$dir/env" <<-ENV
	S3_ENDPOINT=http://127.0.0.1:$port
	AWS_ACCESS_KEY_ID=AKIDTEST
	AWS_SECRET_ACCESS_KEY=secretsecret/+test
	AWS_REGION=us-east-1
ENV
cat "$dir"/run/*.pid | tr -s '\n' ' ' >"$dir/pids"
echo "ready on 127.0.0.1:$port; pids $(<"$dir/pids")"
