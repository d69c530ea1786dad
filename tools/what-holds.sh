#!/usr/bin/env bash
# what-holds.sh RUN...: puts what the folders of runs tell into the guide page
# "What holds of the study", between its marks.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "Name the results folder of a run: tools/what-holds.sh RUN..." >&2; exit 1; }
page=templates/guides/what-holds.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go run . report -formats markdown -o "$work" "$@"
# Its headings become those of a section.
sed -n '2,$s/^##/###/; 2,$p' "$work/findings.md" >"$work/measured"
awk -v measured="$work/measured" '
	/^<!-- measured -->$/ { print; while ((getline line < measured) > 0) print line; skip = 1; next }
	/^<!-- end -->$/ { skip = 0 }
	!skip { print }
' "$page" >"$work/page"
cp "$work/page" "$page"
echo "$page has the numbers; run \"make generate\" to carry them over to docs/"
