#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages, as an administrator has them: built on a release of Debian, installed into a bare one (debootstrap), run there
# under the users, capabilities and settings that their units name, captured with once, removed. What they recorded must stay.
#
#   tests/packages.sh [RELEASE...]      bookworm, trixie; default: bookworm
#
# The packages of this machine's own release are built here; those of another one in a root folder of it, with all that the build needs
# (2 GB). Needs root, debootstrap, and Debian's packages. Root folders are kept in build/packages, and are used again.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
folder=$top/build/packages
releases=("$@")
[ $# -gt 0 ] || releases=(bookworm)

say() { echo "packages: $*"; }
fail() { echo "packages: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root: it makes root folders and enters them"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

# make_root RELEASE FOLDER: a bare Debian. It is complete when its stamp is there.
make_root() {
	[ ! -e "$2/.complete" ] || return 0
	say "making a bare $1"
	rm -rf "$2"
	debootstrap --variant=minbase "$1" "$2" >"$2.log" 2>&1 || { tail -n 5 "$2.log"; fail "debootstrap of $1 failed"; }
	touch "$2/.complete"
}

# in_root FOLDER own|host COMMAND...: with mounts and processes of its own, which do not outlive the command, on a network of its own or this
# machine's.
in_root() {
	local root=$1 network=$2 flags=(--mount --pid --fork --kill-child)
	shift 2
	[ "$network" = host ] || flags+=(--net)
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	unshare "${flags[@]}" --mount-proc="$root/proc" bash -c "[ $network = host ] || ip link set lo up; "'exec chroot "$@"' - "$root" \
		/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# build_packages RELEASE: into build/packages/RELEASE.deb
build_packages() {
	local out=$folder/$1.deb root=$folder/$1.build targets=(tutti-agent tutti-aggregator tutti tutti_nvtx)
	rm -rf "$out"
	mkdir -p "$out"
	if [ "$1" = "$(. /etc/os-release && echo "$VERSION_CODENAME")" ]; then
		cmake --preset release >/dev/null
		cmake --build --preset release --target "${targets[@]}" >"$out/log" 2>&1 || { tail -n 20 "$out/log"; fail "the build failed"; }
		(cd "$top/build/release" && cpack -G DEB -B "$out" >>"$out/log" 2>&1) || { tail -n 20 "$out/log"; fail "cpack failed"; }
		return
	fi
	make_root "$1" "$root"
	rm -rf "$root/source"
	mkdir "$root/source"
	git -C "$top" archive HEAD | tar -C "$root/source" -xf -
	say "building on $1"
	in_root "$root" host bash -euc 'cd /source; apt-get -qq update; tests/setup.sh build >/dev/null 2>&1
		cmake --preset release; cmake --build --preset release --target '"${targets[*]}"'; cd build/release; cpack -G DEB -B /source/out' \
		>"$out/log" 2>&1 || { tail -n 20 "$out/log"; fail "the build on $1 failed"; }
	cp "$root"/source/out/*.deb "$out"
}

# ---- what follows runs inside of the root folder ----

# setting UNIT NAME: of a unit file
setting() { sed -n "s/^$2=//p" "/usr/lib/systemd/system/$1.service"; }

# run_unit UNIT: starts what ExecStart names, in the background, as the user and with the capabilities of the unit.
run_unit() {
	local unit=$1 user caps privileges
	user=$(setting "$unit" User)
	caps=$(setting "$unit" AmbientCapabilities | tr '[:upper:]' '[:lower:]' | sed 's/cap_/+/g; s/ /,/g')
	privileges=(--reuid="$user" --regid="$(setting "$unit" Group)" --clear-groups --no-new-privs)
	if [ -n "$caps" ]; then
		privileges+=(--inh-caps="-all,$caps" --bounding-set="-all,$caps" --ambient-caps="-all,$caps")
	else
		privileges+=(--inh-caps=-all --bounding-set=-all --ambient-caps=-all)
	fi
	install -d -o "$user" -g "$user" -m "$(setting "$unit" StateDirectoryMode)" "/var/lib/$(setting "$unit" StateDirectory)"
	[ -z "$(setting "$unit" RuntimeDirectory)" ] || install -d -o "$user" -g "$user" -m 0755 "/run/$(setting "$unit" RuntimeDirectory)"
	# shellcheck disable=SC2046 # the words of ExecStart
	setpriv "${privileges[@]}" $(setting "$unit" ExecStart) >"/tmp/$unit.log" 2>&1 &
	echo $! >"/tmp/$unit.pid"
}

# wait_for SECONDS WHAT COMMAND...
wait_for() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { cat /tmp/tutti-*.log; echo "packages: no $what"; return 1; }
		sleep 0.1
	done
}

capabilities() { awk '/^CapEff/ { print $2 }' "/proc/$(cat "/tmp/$1.pid")/status"; }

inside() {
	set -euo pipefail
	local unit
	grep -q '^tutti-agent:.*:/usr/sbin/nologin$' /etc/passwd
	: >/tmp/tutti-agent.log
	setpriv --help >/dev/null
	run_unit tutti-aggregator
	run_unit tutti-agent
	wait_for 60 "agent at the aggregator" sh -c 'tutti hosts | grep -q connected'
	# PERFMON BPF SYS_PTRACE SYSLOG DAC_READ_SEARCH, and none
	[ "$(capabilities tutti-agent)" = 000000c400080004 ] || { echo "packages: the agent has $(capabilities tutti-agent)"; return 1; }
	[ "$(capabilities tutti-aggregator)" = 0000000000000000 ] || { echo "packages: the aggregator has $(capabilities tutti-aggregator)"; return 1; }
	tutti hosts --json >/tmp/hosts.json
	tutti mark "from a package"
	timeout 20 sh -c 'while :; do :; done' &
	tutti capture --duration 1s --json >/tmp/capture.json
	tutti inspect --output /tmp/inspected -- true >/tmp/inspect.log 2>&1 || { cat /tmp/inspect.log; return 1; }
	for unit in tutti-agent tutti-aggregator; do
		kill "$(cat /tmp/$unit.pid)"
		wait "$(cat /tmp/$unit.pid)" || { cat "/tmp/$unit.log"; return 1; }
	done
	grep -qs . /var/lib/tutti/profiles -r
}

# ---- outside again ----

check_capture() {
	/usr/bin/python3 - "$1" <<-'PY'
		import json, sys
		capture, hosts = (json.load(open(f"{sys.argv[1]}/tmp/{name}.json")) for name in ("capture", "hosts"))
		states = {t["name"]: t["state"] for t in hosts["hosts"][0]["tracers"]}
		worse = {n: s for n, s in states.items() if s != "ok" and n in ("cpu", "metrics", "marks", "annotations", "sched", "python")}
		assert (capture["state"], capture["complete"]) == ("committed", 1), capture
		assert not worse, f"tracers that lack something: {worse}"
		print(f"packages: captured {capture['session']}: {', '.join(sorted(n for n, s in states.items() if s == 'ok'))} ok")
	PY
}

check_release() {
	local release=$1 root=$folder/$1 kept unit
	mkdir -p "$folder"
	build_packages "$release"
	make_root "$release" "$root"
	rm -rf "$root/tmp/debs" "$root/var/lib/tutti" "$root/var/lib/tutti-agent"
	mkdir "$root/tmp/debs"
	cp "$folder/$release.deb"/*.deb "$root/tmp/debs"
	say "installing on $release: $(cd "$root/tmp/debs" && echo *.deb)"
	in_root "$root" host bash -euc 'apt-get -qq update; 
		# a run that failed has left packages of the same version
		apt-get -y -qq --no-install-recommends --reinstall install /tmp/debs/*.deb' >"$folder/$release.install" 2>&1 ||
		{ tail -n 20 "$folder/$release.install"; fail "the packages do not install on $release"; }
	in_root "$root" own bash -euc "$(declare -f setting run_unit wait_for capabilities inside); inside" ||
		fail "the packages do not run on $release"
	check_capture "$root"
	in_root "$root" host apt-get -y -qq purge tutti tutti-agent tutti-aggregator >"$folder/$release.purge" 2>&1 || fail "cannot remove them"
	for unit in usr/bin/tutti usr/lib/tutti etc/tutti/agent.conf usr/lib/systemd/system/tutti-agent.service; do
		[ ! -e "$root/$unit" ] || fail "/$unit is there after the packages are removed"
	done
	kept=$(find "$root/var/lib/tutti/profiles" -type f | wc -l)
	[ "$kept" -gt 0 ] || fail "the session went with the packages"
	say "$release: installed, ran, captured, removed; $kept files of the session stay"
}

for release in "${releases[@]}"; do check_release "$release"; done
