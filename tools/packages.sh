#!/usr/bin/env bash
# packages.sh [vm] [PROGRAM=PACKAGE ...]: installs the Debian packages that
# local hosts, tests and the lab use, those of the VM lab too, and those given,
# if one of their programs is missing.
set -euo pipefail
declare -A package=(
	[containerd]=containerd [ctr]=containerd [runc]=runc
	[nft]=nftables [conntrack]=conntrack [ip]=iproute2 [mount]=mount [iptables]=iptables
	[ping]=iputils-ping [iperf3]=iperf3 [jq]=jq
	[sshd]=openssh-server [sudo]=sudo
)
vm=
if [ "${1:-}" = vm ]; then
	vm=1
	package+=(
		[qemu-system-x86_64]=qemu-system-x86 [qemu-img]=qemu-utils
		[mmdebstrap]=mmdebstrap [mke2fs]=e2fsprogs [ssh-keygen]=openssh-client
	)
	shift
fi
for more in "$@"; do
	package[${more%%=*}]=${more#*=}
done
missing=()
for program in "${!package[@]}"; do
	command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
[ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] || missing+=(containernetworking-plugins)
[ -z "$vm" ] || [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
[ ${#missing[@]} -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "Install these packages first: ${missing[*]}" >&2
	exit 1
fi
echo "Installing ${missing[*]} (about half a minute, once)"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The tests run these programs themselves, on hosts of their own: no package is
# to start a service on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$log" "$policy"' EXIT
fi
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	exit 1
fi
