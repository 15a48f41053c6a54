#!/usr/bin/env bash
# The documentation as a site: the pages of docs/ as they are, in target/book. mdBook is built once.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
version=0.5.4
export PATH="$top/target/tools/bin:$PATH"
if ! command -v mdbook >/dev/null; then
    echo "Building mdbook $version, once" >&2
    cargo install --quiet --locked --root "$top/target/tools" --no-default-features --features search "mdbook@$version"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/pages"
cp "$top/packaging/book/book.toml" "$work/"
cp -r "$top/docs" "$top/README.md" "$top/ARCHITECTURE.md" "$top/CONTRIBUTING.md" "$top/CHANGELOG.md" "$work/pages/"
# What pages link to beside pages.
mkdir -p "$work/pages/benches" "$work/pages/crates/histogram/src"
cp -r "$top/benches/runs" "$work/pages/benches/"
cp "$top/crates/histogram/src/grid.rs" "$work/pages/crates/histogram/src/"

title() { sed -n '/^# /{s/^# //p;q}' "$1"; }
pages() { # FOLDER: a line of the summary for each page, by its title
    local page
    for page in "$work/pages/docs/$1"/*.md; do echo "  - [$(title "$page")](docs/$1/$(basename "$page"))"; done
}
{
    echo "# Summary"
    echo
    echo "[latscope](README.md)"
    echo "[Documentation](docs/README.md)"
    echo
    echo "- [Get started](docs/get-started.md)"
    for part in "questions:Questions" "how-to:How-to" "views:Views" "reference:Reference" "formats:File formats" "explanation:Explanation"; do
        echo "- [${part#*:}]()"
        pages "${part%%:*}"
    done
    echo "- [Gallery](docs/gallery.md)"
    echo "- [Clusters]()"
    for page in cluster alerts exports scale spark-memory; do echo "  - [$(title "$work/pages/docs/$page.md")](docs/$page.md)"; done
    echo "- [For developers](ARCHITECTURE.md)"
    echo "  - [Contributing](CONTRIBUTING.md)"
    echo "  - [Changelog](CHANGELOG.md)"
    echo "- [Decisions](docs/journal/README.md)"
    pages journal
} >"$work/pages/SUMMARY.md"
{
    echo "# Decisions"
    echo
    pages journal | grep -v README.md | sed 's|^  - |* |; s|(docs/journal/|(|'
} >"$work/pages/docs/journal/README.md"
# mdBook calls a README index.html.
find "$work/pages" -name '*.md' -exec sed -i 's|README\.md#|index.html#|g; s|(journal/)|(journal/index.html)|g' {} +
rm -rf "$top/target/book"
mdbook build "$work" --dest-dir "$top/target/book"
"$top/packaging/book/links.py" "$top/target/book"
