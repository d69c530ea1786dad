#!/usr/bin/env bash
# demo.sh apply|destroy: a scenario from nothing to numbers.
set -Eeuo pipefail
cd "$(dirname "$0")/.."
scenario=examples/scenarios/$SCENARIO
case $SCENARIO in
response-time)
	what="hosts, overlay, clusters, ClusterLink, gateways and functions; then the measurement of 48 cells"
	usually="1 min, then 6 min"
	ending="25 s"
	;;
knative)
	what="hosts, overlay, clusters, ClusterLink, Knative and functions; then the measurement of 32 cells"
	usually="2 min, then 3 min"
	ending="1 min, in which Knative lets its pods drain"
	;;
*)
	echo "There is no demo of the scenario \"$SCENARIO\"; write SCENARIO=response-time or SCENARIO=knative" >&2
	exit 1
	;;
esac

stage() { printf '\n== %s (usually %s)\n' "$1" "$2"; began=$SECONDS; }
took() { echo "took $((SECONDS - began)) s"; }

if [ "$(id -u)" != 0 ]; then
	echo "The demo makes namespaces, TUN devices and mounts, so it needs root: sudo make demo" >&2
	exit 1
fi
unset TF_CLI_CONFIG_FILE
export CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1

stage "Packages: containerd, runc, CNI plugins, nftables" "30 s the first time, then nothing"
tools/packages.sh
took

stage "Provider and agents" "5 min the first time, then seconds"
make --no-print-directory agent
plugins=$CACHE/plugins
mkdir -p "$plugins"
CGO_ENABLED=0 go build -trimpath -o "$plugins/" .
go build -trimpath -o "$CACHE/results-table" ./internal/bench/table
tools/cli.sh "$CACHE" build
cli=$(tools/cli.sh "$CACHE")
took

if [ "$K3S" = lab ]; then
	stage "Lab: a stand-in for k3s, images of ClusterLink, haproxy and Knative" "15 min the first time, then nothing"
	make --no-print-directory lab
	took
	TF_VAR_k3s_binary=$CACHE/lab/k3s
	TF_VAR_k3s_images="[\"$CACHE/lab/k3s-airgap-images-amd64.tar\"]"
	TF_VAR_clusterlink_images="[\"$CACHE/lab/clusterlink-images-amd64.tar\"]"
	TF_VAR_gateway_images="[\"$CACHE/lab/gateway-images-amd64.tar\"]"
	TF_VAR_gateway_image=localhost/haproxy:debian
	TF_VAR_knative_manifests="[\"$CACHE/lab/knative-serving.yaml\"]"
	TF_VAR_knative_images="[\"$CACHE/lab/knative-images-amd64.tar\"]"
	TF_VAR_dataplane=go
	export TF_VAR_k3s_binary TF_VAR_k3s_images TF_VAR_clusterlink_images TF_VAR_gateway_images TF_VAR_gateway_image TF_VAR_knative_manifests TF_VAR_knative_images TF_VAR_dataplane
fi

# The provider is the one built above, not one of a registry.
mirror=$CACHE/mirror
for registry in registry.terraform.io registry.opentofu.org; do
	folder=$mirror/$registry/terraform-testbed/testbed/0.1.0/linux_$(go env GOARCH)
	mkdir -p "$folder"
	ln -sf "$plugins/terraform-provider-testbed" "$folder/terraform-provider-testbed_v0.1.0"
done
cat >"$CACHE/cli.tfrc" <<EOF
provider_installation {
  filesystem_mirror {
    path = "$mirror"
  }
}
EOF
export TF_CLI_CONFIG_FILE=$CACHE/cli.tfrc
[ -t 1 ] || export TF_CLI_ARGS=-no-color
terraform() { "$cli" -chdir="$scenario" "$@"; }

# The lock file would pin the build of the last demo.
rm -f "$scenario/.terraform.lock.hcl"
terraform init -input=false >"$CACHE/init.log" 2>&1 || { cat "$CACHE/init.log" >&2; exit 1; }

# Plans list every attribute of every resource; what happens is told by apply.
change() {
	local plan=$CACHE/demo.plan
	if ! terraform plan -input=false -out="$plan" "$@" >"$CACHE/plan.log" 2>&1; then
		cat "$CACHE/plan.log" >&2
		return 1
	fi
	terraform apply -input=false "$plan"
}

if [ "$1" = apply ]; then
	stage "Apply: $what" "$usually"
	trap 'echo "The demo did not get to its end; what is up can be ended with: make demo-destroy SCENARIO=$SCENARIO" >&2' ERR INT
	change
	took

	stage "Results" "a second"
	terraform output
	echo
	terraform output -json | "$CACHE/results-table"
	echo
	echo "Times are in milliseconds. Raw samples: $(terraform output -raw samples_file)"
	# The report of the configuration goes with it; this one stays.
	"$plugins/terraform-provider-testbed" report "$(terraform output -raw results_folder)" -o "$CACHE/report"
	if [ -n "${KEEP:-}" ]; then
		echo "The testbed is left up, as KEEP asks; end it with: make demo-destroy SCENARIO=$SCENARIO"
		exit 0
	fi
fi

stage "Destroy" "$ending"
change -destroy
took
