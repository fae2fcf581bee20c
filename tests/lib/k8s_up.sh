#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A real Kubernetes of one node on this machine, without docker, for tests/cluster.sh:
#   tests/lib/k8s_up.sh BIN DIR IMAGE.tar...   etcd, API server, controllers, scheduler, containerd, kubelet; ends when the node is Ready
#   tests/lib/k8s_up.sh --down DIR             stops what the other call started, and nothing else
#
# BIN is what k8s_build.sh made; one of the images is localhost/pause:1. Needs root and the packages containerd, runc and
# containernetworking-plugins. All listens on 127.0.0.1, ports BASE_PORT (26500) and 99 above. DIR/kubeconfig is an administrator's.
# Works with cgroup v1 and v2 and without CAP_SYS_RESOURCE. k8s_net.py is its DNS and, for the API server's own Service, its kube-proxy: a pod
# reaches that and headless Services, and no other. Pods are in 198.18.64.0/24, Services in 198.18.65.0/24.
set -uo pipefail

base=${BASE_PORT:-26500} bridge=tuttitest0 gateway=198.18.64.1 api_service=198.18.65.1
here=$(cd "$(dirname "$0")" && pwd)

# The pids in DIR/pids whose programs are still those that were started.
alive() {
	local pid name
	while read -r pid name; do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "${name:0:15}" ] && echo "$pid"
	done <"$1/pids"
}

# The pods first, while their runtime is there; their network namespaces outlive them.
remove_pods() {
	local dir=$1 id ctr=(timeout 10 ctr -a "$1/cd/c.sock" -n k8s.io)
	kill "$(cat "$dir/kubelet.pid" 2>/dev/null)" 2>/dev/null && sleep 1
	for id in $("${ctr[@]}" tasks ls -q 2>/dev/null); do "${ctr[@]}" tasks kill -s KILL "$id"; done >/dev/null 2>&1
	sleep 1
	for id in $("${ctr[@]}" containers ls -q 2>/dev/null); do
		"${ctr[@]}" containers info "$id" 2>/dev/null | grep -o 'netns/cni-[0-9a-f-]*' >>"$dir/netns"
		"${ctr[@]}" tasks rm -f "$id" >/dev/null 2>&1
		"${ctr[@]}" containers rm "$id" >/dev/null 2>&1
	done
}

down() {
	local dir i pid space mounted
	dir=$(realpath -m "$1")
	[ -f "$dir/pids" ] || return 0
	[ ! -S "$dir/cd/c.sock" ] || remove_pods "$dir"
	for pid in $(alive "$dir" | tac); do kill "$pid"; done
	for pid in $(grep -lsF "$dir/cd/c.sock" /proc/[0-9]*/cmdline | cut -d/ -f3); do # shims outlive their containerd
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = containerd-shim ] && kill "$pid"
	done
	for ((i = 0; i < 100; i++)); do # the API server takes its time
		[ -n "$(alive "$dir")" ] || break
		[ $i -ne 50 ] || for pid in $(alive "$dir"); do kill -KILL "$pid"; done
		sleep 0.2
	done
	while mounted=$(awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/mounts | tail -1) && [ -n "$mounted" ]; do
		umount "$mounted" || umount -l "$mounted" || break
	done
	sort -u "$dir/netns" 2>/dev/null | while read -r space; do
		umount "/run/$space" 2>/dev/null
		rm -f "/run/$space"
	done
	ip link del $bridge 2>/dev/null
	find /sys/fs/cgroup -depth -type d -path '*kubepods*' -exec rmdir {} + 2>/dev/null
	rm -f "$dir/pids"
}

if [ "${1:-}" = --down ]; then
	down "${2:?usage: k8s_up.sh --down DIR}"
	exit 0
fi

bin=$(realpath "${1:?usage: k8s_up.sh BIN DIR IMAGE.tar...}") dir=${2:?usage: k8s_up.sh BIN DIR IMAGE.tar...}
shift 2
images=()
for image in "$@"; do images+=("$(realpath "$image")"); done
down "$dir"
rm -rf "$dir"
mkdir -p "$dir"/{etcd,certs,log,cd/net,kubelet}
dir=$(cd "$dir" && pwd) && cd "$dir" || exit 1

# start NAME COMMAND...: in the background; its pid is kept
start() {
	local name=$1
	shift
	setsid "$@" >"$dir/log/$name" 2>&1 </dev/null &
	echo $! >"$dir/$name.pid"
	echo "$! $(basename "$1")" >>"$dir/pids"
}

# wait_for SECONDS WHAT COMMAND...
wait_for() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "k8s_up: no $what; logs are in $dir/log" >&2; down "$dir"; exit 1; }
		sleep 0.2
	done
}

api() { curl -sfk -m 10 -H 'Authorization: Bearer admintoken' "https://127.0.0.1:$((base + 43))$1"; }
node_ready() { api /api/v1/nodes/localhost | tr -d ' \n' | grep -q '"type":"Ready","status":"True"'; }

etcd_url=http://127.0.0.1:$((base + 79)) peer_url=http://127.0.0.1:$((base + 80))
start etcd "$bin/etcd" --data-dir "$dir/etcd" --listen-client-urls $etcd_url --advertise-client-urls $etcd_url --listen-peer-urls $peer_url \
	--initial-advertise-peer-urls $peer_url --initial-cluster default=$peer_url --unsafe-no-fsync --log-level warn
openssl genrsa -out "$dir/sa.key" 2048 2>/dev/null
echo 'admintoken,admin,1,system:masters' >"$dir/tokens.csv"
# The kubelet listens on loopback, which is no address that a node may report: its name leads there.
start api "$bin/kube-apiserver" --etcd-servers=$etcd_url --bind-address=127.0.0.1 --secure-port=$((base + 43)) --cert-dir="$dir/certs" \
	--service-account-issuer=https://kubernetes.default.svc --service-account-signing-key-file="$dir/sa.key" --service-account-key-file="$dir/sa.key" \
	--api-audiences=https://kubernetes.default.svc --authorization-mode=Node,RBAC --token-auth-file="$dir/tokens.csv" \
	--service-cluster-ip-range=198.18.65.0/24 --allow-privileged=true --endpoint-reconciler-type=none --kubelet-preferred-address-types=Hostname
cat >"$dir/kubeconfig" <<-CONFIG
	apiVersion: v1
	kind: Config
	clusters: [{name: c, cluster: {server: "https://127.0.0.1:$((base + 43))", insecure-skip-tls-verify: true}}]
	users: [{name: u, user: {token: admintoken}}]
	contexts: [{name: x, context: {cluster: c, user: u}}]
	current-context: x
CONFIG
wait_for 180 "API server" api /readyz
start kcm "$bin/kube-controller-manager" --kubeconfig="$dir/kubeconfig" --service-account-private-key-file="$dir/sa.key" \
	--root-ca-file="$dir/certs/apiserver.crt" --use-service-account-credentials=true --bind-address=127.0.0.1 --secure-port=$((base + 57)) \
	--cert-dir="$dir/certs" --leader-elect=false
start scheduler "$bin/kube-scheduler" --kubeconfig="$dir/kubeconfig" --leader-elect=false --secure-port=$((base + 59)) --bind-address=127.0.0.1 \
	--cert-dir="$dir/certs"
cat >"$dir/cd/net/10-test.conflist" <<-CNI
	{"cniVersion": "0.4.0", "name": "tuttitest", "plugins": [{"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipMasq": false,
	"ipam": {"type": "host-local", "dataDir": "$dir/cd/ipam", "ranges": [[{"subnet": "198.18.64.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
CNI
cat >"$dir/cd/config.toml" <<-TOML
	version = 2
	root = "$dir/cd/root"
	state = "$dir/cd/state"
	[grpc]
	  address = "$dir/cd/c.sock"
	[plugins."io.containerd.grpc.v1.cri"]
	  sandbox_image = "localhost/pause:1"
	  restrict_oom_score_adj = true
	  [plugins."io.containerd.grpc.v1.cri".containerd]
	    default_runtime_name = "runc"
	    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
	      runtime_type = "io.containerd.runc.v2"
	  [plugins."io.containerd.grpc.v1.cri".cni]
	    bin_dir = "/usr/lib/cni"
	    conf_dir = "$dir/cd/net"
	[plugins."io.containerd.internal.v1.opt"]
	  path = "$dir/cd/opt"
TOML
# With an address of its own: else it has the lowest of its pods', which changes as they come and go, and the others send to a former one.
ip link del $bridge 2>/dev/null # of a run whose folder is gone
ip link add $bridge address 02:00:c6:12:40:01 type bridge && ip addr add $gateway/24 dev $bridge && ip addr add $api_service/32 dev $bridge && ip link set $bridge up ||
	{ echo "k8s_up: no bridge" >&2; down "$dir"; exit 1; }
# `ip netns add` mounts this folder onto itself, unless it is a shared mount already: containerd's mounts below would be hidden by that, and
# pods with them could not be removed. It stays, as after `ip netns add`: others may have namespaces there by then.
mkdir -p /run/netns
mountpoint -q /run/netns || mount --bind --make-shared /run/netns /run/netns || { echo "k8s_up: no /run/netns" >&2; down "$dir"; exit 1; }
start net python3 "$here/k8s_net.py" "https://127.0.0.1:$((base + 43))" admintoken $gateway $api_service
start containerd containerd -c "$dir/cd/config.toml"
wait_for 60 containerd ctr -a "$dir/cd/c.sock" version
for image in "${images[@]}"; do
	ctr -a "$dir/cd/c.sock" -n k8s.io images import "$image" >>"$dir/log/import" 2>&1 || { echo "k8s_up: $image is not imported" >&2; down "$dir"; exit 1; }
done
cat >"$dir/kubelet.yaml" <<-YAML
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	address: 127.0.0.1
	port: $((base + 50))
	readOnlyPort: 0
	healthzPort: 0
	failCgroupV1: false
	failSwapOn: false
	cgroupDriver: cgroupfs
	oomScoreAdj: 0
	clusterDNS: [$gateway]
	clusterDomain: cluster.local
	containerRuntimeEndpoint: unix://$dir/cd/c.sock
	authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
	authorization: {mode: AlwaysAllow}
	enforceNodeAllocatable: [none]
	evictionHard: {memory.available: "1Mi"}
	imageGCHighThresholdPercent: 100
	nodeStatusUpdateFrequency: 2s
	syncFrequency: 2s
YAML
start kubelet "$bin/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$dir/kubeconfig" --root-dir="$dir/kubelet" --cert-dir="$dir/certs/kubelet" \
	--hostname-override=localhost
wait_for 180 "Ready node" node_ready
