#!/usr/bin/env bash
# Installs the wheel into an empty environment in a fresh Debian, and runs the example of the documentation there: test.sh WHEEL PYTHON
# PYTHON fetches what the wheel needs, since the fresh Debian may have no way to a package index.
set -euo pipefail
. "$(dirname "$0")/../fresh.sh"
wheel=$(realpath "$1")
python=$(realpath -s "$2")
top=$(cd "$(dirname "$0")/../.." && pwd)
fresh_debian libelf1,zlib1g,python3-venv
version=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
mkdir "$fresh/wheels" "$fresh/latscope"
"$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --python-version "$version" -d "$fresh/wheels" "$wheel"
for part in xtask/python_example.sh docs/how-to/notebook.md testdata/perf_script/story_2s.txt.gz; do
    install -D "$top/$part" "$fresh/latscope/$part"
done
inside python3 -m venv /environment
inside /environment/bin/python -m pip install --quiet --no-index --find-links /wheels latscope
inside /latscope/xtask/python_example.sh /environment/bin/python
echo "passed: installed and used with Python $version of a fresh Debian"
