# Two commands do everything on a fresh Debian or Ubuntu machine: `make demo` and `make test`.

PYTHON := /usr/bin/python3
CARGO  := env PATH="$(HOME)/.cargo/bin:$(CURDIR)/target/tools/bin:$(PATH)" cargo
BORA   := target/release/bora
DPDK   := --features bora/dpdk
HERO   := $(or $(HERO_VENV),target/hero/venv)/bin/python

.PHONY: help deps build build-dpdk build-hero deb test-package demo test test-all ci test-build test-ready integration-deps vm-deps \
	unit doc-tests loom conformance conformance-quick integration integration-alone integration-long integration-quick test-vm test-vm-topics test-vm-conformance test-vm-dpdk \
	test-vm-package coverage vm-quick test-instructions vm-short vm-short-topics vm-short-package fuzz-router fuzz-quick planted soak bench bench-veth bench-table bench-bulk bench-latency \
	bench-fib bench-acl bench-bgp bench-documents bench-engine bench-instructions bench-nat bench-peers bench-rules bench-scale bench-tester bench-watch bench-hero hero-deps hero-model hero-device hero-guest hero-module hero-dkms hero-qemu hero-lint hero-formal hero-tb hero-test hero-quick hero-long hero-debug hero-regress hero-syn hero-board lint fmt clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

deps: ## Install what is missing (Debian, Ubuntu)
	@scripts/deps

build: deps ## Build the release binaries: bora, bora-test, bora-lab
	$(CARGO) build --release -p bora -p bora-test -p bora-lab

build-hero: deps ## Build target/release/bora-hero, which has HERO's cards as ports, too
	$(CARGO) build --release -p bora-with-hero

# The two binaries have one name, so the plain one is put back: that only links it again where it lay.
build-dpdk: deps ## Build target/release/bora-dpdk, too, which has ports that DPDK drives
	$(CARGO) build --release -p bora --features dpdk
	mv target/release/bora target/release/bora-dpdk
	$(CARGO) build --release -p bora

deb: build ## The Debian packages, target/debian/bora_VERSION_amd64.deb, bora-test and bora-lab; another version: make deb VERSION=0.1.1
	@scripts/deb $(VERSION)

demo: build ## Forward real traffic between namespaces and show it
	@scripts/as-root $(BORA)-lab demo

# Stages of `make test`, and of `make test-all` with the minutes that each takes on two idle CPUs; what tells most comes first.
TEST := lint test-ready unit hero-quick conformance-quick integration-quick fuzz-quick vm-quick test-instructions
TEST_ALL := lint=3 test-ready=8 unit=4 doc-tests=2 loom=1 integration=13 integration-alone=14 conformance=4 hero-test=10 deny=4 advisories=1 vm-short=9 vm-short-topics=10 vm-short-package=4 \
	test-package=15 test-vm-dpdk=15 test-vm-package=25 integration-long=30 hero-long=85 hero-debug=75 test-vm-topics=40 test-vm=150 test-vm-conformance=120 soak=40 test-selftests=240

# scripts/stages needs the Python that `deps` installs.
test: deps ## What anybody runs before a commit: all lints and unit tests, and a part of every other kind of test
	@scripts/stages $(TEST)

test-all: deps ## All tests, in stages that can be run alone (tests/README.md); they take many hours
	@scripts/stages --keep-going $(TEST_ALL)

ci: deps ## `make test`, and of `make test-all` what fits into an hour
	@scripts/stages --keep-going --minutes 60 test=25 $(filter-out lint=% test-ready=% unit=% advisories=%,$(TEST_ALL))

# The tests run as root and everything is installed, so a test that would be skipped fails instead.
unit conformance conformance-quick integration integration-alone integration-long integration-quick: export BORA_ALL := 1
integration integration-alone integration-long integration-quick: export BORA_DPDK := $(CURDIR)/target/debug/bora
integration integration-alone integration-long integration-quick: export BORA_HERO := $(CURDIR)/target/debug/bora-hero
# Another build of Bora takes minutes: quick tests take the binary of the unit tests' build.
conformance-quick integration-quick fuzz-quick vm-quick test-instructions: export BORA := $(CURDIR)/target/debug/bora

lint: deps ## Formatting, lints, and whether the documents agree with the code
	$(CARGO) fmt --all --check
	$(PYTHON) router/contract/generate.py --check
	$(CARGO) clippy --workspace --all-targets $(DPDK) -- -D warnings
	$(CARGO) clippy -p bora-port --all-targets -- -D warnings
	$(PYTHON) -m pytest tests/docs -q

# One build for all tests. Its programs have DPDK, because a second build with other features takes minutes.
test-build: deps
	$(CARGO) build --workspace --all-targets $(DPDK)

integration-deps: deps
	@scripts/deps-browser
	@scripts/deps-routing
	@scripts/deps-collectors

vm-deps:
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/kernels.py 6.1 6.12 newest >/dev/null

# One of them compiles while the others wait for archives.
test-ready: deps ## What `make test` needs: programs, packages, kernels of guests
	@$(MAKE) -j2 --no-print-directory test-build hero-deps integration-deps vm-deps

unit: test-build hero-model ## Unit and property tests
	$(CARGO) test --workspace --all-targets $(DPDK) --quiet --config 'target."cfg(unix)".runner = "$(CURDIR)/scripts/as-root"'

doc-tests: test-build ## The examples in documentation comments
	$(CARGO) test --workspace --doc $(DPDK) --quiet

loom: deps ## All interleavings of the FIB's readers and its writer
	RUSTFLAGS="--cfg loom" $(CARGO) test -p bora-fib --test loom --release --quiet --target-dir target/loom

CONFORMANCE := scripts/as-root $(PYTHON) -m pytest tests/conformance -q -n 4 --dist loadscope
conformance: build ## RFC behaviour: the kernel, the engine and express, on several kinds of port
	@$(CONFORMANCE)

conformance-quick: test-build
	@$(CONFORMANCE) --backend engine --backend express --backend engine-tap

INTEGRATION := scripts/as-root $(PYTHON) -m pytest tests/integration -q --dist loadscope
integration: build test-build hero-model integration-deps ## Whole-router tests in namespaces, side by side
	@$(INTEGRATION) -n 3 -m "not alone and not long"

integration-alone: build test-build hero-model integration-deps ## Those that no other test may disturb
	@$(INTEGRATION) -m "alone and not long"

integration-long: build test-build hero-model integration-deps ## Those that take minutes and much memory
	@$(INTEGRATION) -m long

integration-quick: test-build hero-model integration-deps
	@$(INTEGRATION) -n 4 -m "not slow and not alone and not long"
	@$(INTEGRATION) -n 2 -m "alone and not slow and not long"

vm-quick: test-build vm-deps
	@scripts/as-root $(PYTHON) tests/vm/run.py --quick

test-instructions: test-build vm-deps ## Whether express takes more instructions a packet than lab/bench/instructions/table.json says
	@scripts/as-root $(PYTHON) lab/bench/instructions/bench.py --check

# A part: make test-vm ARGS="--kernel newest --card igb"; more of TCP: ARGS="--tcp-minutes 3"
test-vm: build ## Debian's kernels and emulated cards in guests, written to docs/machines.md
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/run.py $(ARGS)

# Some of them, or another kernel: make test-vm-topics ARGS="bond vrf --kernel 6.12"
test-vm-topics: build ## Bonds, bridges, firewalls, flows, PPPoE, tunnels, VRFs, WireGuard on one of Debian's kernels, with Linux alone as the oracle
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/topic.py $(ARGS)

# Another kernel: make coverage ARGS="--kernel 6.12"
coverage: build ## Rulesets that people have, in a guest: how much of their traffic Bora forwards (docs/coverage.md)
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/topic.py firewall $(ARGS)

# A part: make test-vm-conformance ARGS="--over bond --backend engine --short"; all of it takes an hour or more without KVM
test-vm-conformance: build ## The conformance tests over VLAN devices, bonds and a VRF, on one of Debian's kernels
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/conformance.py $(ARGS)

test-vm-dpdk: build-dpdk ## Ports that DPDK drives, on an emulated card with an IOMMU and without
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/dpdk.py $(ARGS)

# Another kernel and release: make test-vm-package ARGS="--kernel 6.1"; less of it: ARGS=--short
test-vm-package: build ## The Debian package in a guest with systemd: install, upgrade under traffic, reboot, purge
	@scripts/deps-vm
	@scripts/deps-fresh
	@scripts/as-root $(PYTHON) tests/vm/package.py $(ARGS)

# Needs a Debian mirror; one release: make test-package ARGS=trixie
test-package: build ## The Debian package in fresh Debian roots: apt install, use, purge
	@scripts/deps-fresh
	@scripts/as-root tests/package/roots $(ARGS)

vm-short: build ## A short part of test-vm: two kernels, three cards
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/run.py --short

vm-short-topics: build ## A short part of test-vm-topics
	@scripts/deps-vm
	@scripts/as-root $(PYTHON) tests/vm/topic.py --short

vm-short-package: build ## A short part of test-vm-package
	@scripts/deps-vm
	@scripts/deps-fresh
	@scripts/as-root $(PYTHON) tests/vm/package.py --short

# Longer, or with the same steps again: make soak ARGS="--hours 2 --seed 7"; the results are in target/soak/report.md
# Hours of the fuzzer, too: make soak FUZZ="--seconds 14400 --keep-going"
FUZZ ?= --seconds 300
soak: build ## Random faults under load, for 30 minutes, and random configurations for five: docs/reliability.md
	@$(CARGO) +nightly fuzz build || echo "without fuzz targets: fuzz/README.md says what they need"
	@scripts/as-root $(PYTHON) tests/soak/run.py $(ARGS)
	@scripts/as-root $(PYTHON) tests/fuzz-router/run.py $(FUZZ)

# Longer, another tier, a case: make fuzz-router ARGS="--seconds 3600 --tier express --keep-going", ARGS="--replay FILE"
fuzz-router: build ## Random configurations of Linux, with Linux alone as the judge, for two minutes: tests/README.md
	@scripts/as-root $(PYTHON) tests/fuzz-router/run.py $(ARGS)

# A part of `make test`, with seeds that stay.
fuzz-quick: test-build
	@scripts/as-root $(PYTHON) tests/fuzz-router/run.py --seed 1 --seconds 90 --shrink-seconds 20

# Some of them, those that were not found yet, the table of docs/reliability.md: make planted ARGS="metric hash", ARGS=--missing, ARGS=--document
planted: deps ## Faults in Bora's source, one at a time, that the fuzzer must find; all take hours
	@scripts/as-root $(PYTHON) tests/planted/run.py $(ARGS)

# As long as published figures need: make papers ARGS=--full
papers: build hero-model ## The experiments of the papers that Bora comes from, written to docs/papers.md
	$(CARGO) build --release -p bora-bench
	@scripts/as-root target/release/bora-lab run --all --output docs $(ARGS)

bench: bench-veth bench-table bench-bulk bench-latency bench-fib bench-acl bench-engine bench-tester bench-watch bench-hero ## All benchmarks

bench-veth: build ## kernel, express, engine and testpmd on veth, side by side
	$(CARGO) build --release -p bora-bench
	@scripts/as-root target/release/bench-veth $(ARGS)

bench-table: build ## kernel, xdp-forward and express with one route and with a million
	@scripts/deps-bench
	$(CARGO) build --release -p bora-bench
	@scripts/as-root target/release/bench-veth --routes 1000000 $(ARGS)

bench-bulk: build ## Traffic that Linux forwards: Linux alone, and behind express and engine
	$(CARGO) build --release -p bora-bench
	@scripts/as-root target/release/bench-veth --bulk $(ARGS)

bench-latency: build ## Latency of kernel, express and the engine's modes on veth
	$(CARGO) build --release -p bora-bench
	@scripts/as-root target/release/bench-latency $(ARGS)

# The tables directory and further options: make bench-fib BORA_TABLES=DIRECTORY ARGS=--quick
bench-fib: deps ## Bora's FIB and DPDK's, side by side
	@scripts/deps-bench
	$(CARGO) build --release -p bora-bench --bin bench-fib --features dpdk
	@scripts/as-root scripts/with-huge-pages 1040 target/release/bench-fib \
		$(if $(BORA_TABLES),--tables $(BORA_TABLES)) --plot docs/bench-fib.svg $(ARGS)

bench-acl: deps ## Rules: Bora, DPDK's rte_acl and nftables
	@scripts/deps-bench
	$(CARGO) build --release -p bora-bench --bin bench-acl --features dpdk
	@scripts/as-root scripts/with-huge-pages 400 target/release/bench-acl $(ARGS)

bench-rules: build ## Rules of nftables that need no connection: nftables, and Bora that follows them
	$(CARGO) build --release -p bora-bench
	@scripts/as-root target/release/bench-rules $(ARGS)

# Fewer routes or rounds: make bench-bgp ARGS="--routes 100000 --rounds 1"; routes that change: ARGS="--updates 30". Not part of `make bench`: a million routes take minutes.
bench-bgp: build ## A full table by BGP (FRR, BIRD): time to converge, and the outage when a peer is lost
	@scripts/deps-routing
	@scripts/as-root $(PYTHON) lab/bench/bgp/bench.py $(ARGS)

bench-engine: deps ## The engine: its loop, memif beside DPDK, overload, fairness, priorities, latency, services
	@scripts/deps-bench
	$(CARGO) build --release -p bora-bench --bin bench-engine --features dpdk
	@scripts/as-root scripts/with-huge-pages 160 target/release/bench-engine \
		--plot docs/bench-engine.svg $(ARGS)

# Needs a Debian mirror; another suite: make bench-peers BORA_SUITE=trixie. Not part of `make bench`, because it downloads much.
bench-peers: build ## Routers that Debian packages, beside Bora: DPDK's l3fwd and testpmd, xdp-forward
	$(CARGO) build --release -p bora-bench
	@scripts/as-root env $(if $(BORA_SUITE),BORA_SUITE=$(BORA_SUITE)) scripts/bench-peers $(ARGS)

# Another kernel: make bench-instructions ARGS="--kernel newest"; a new table: ARGS=--write. Not part of `make bench`: it needs Debian's archive and QEMU.
bench-instructions: build ## Instructions a packet of kernel, xdp-forward and express, counted in a guest: the same on every machine
	@scripts/deps-vm
	$(CARGO) build --release -p bora-bench --bin bench-instructions
	@scripts/as-root $(PYTHON) lab/bench/instructions/bench.py $(ARGS)

# Rounds and more: make bench-nat ARGS="--kernel 6.12 --rounds 1 --flows 1". Not part of `make bench`: it needs Debian's archive and QEMU.
bench-nat: build ## UDP flows through masquerade and DNAT in a guest: nftables, Linux's flowtable, xdp-forward and express
	@scripts/deps-vm
	$(CARGO) build --release -p bora-bench --bin bench-nat
	@scripts/as-root $(PYTHON) lab/bench/nat/bench.py $(ARGS)

# Fewer rounds or one tier: make bench-watch ARGS="--rounds 3 --tier engine"
bench-watch: build ## What it costs to look: metrics, page, top, trace and capture under full load
	@scripts/as-root $(PYTHON) lab/bench/watch/bench.py $(ARGS)

# On a quiet machine, because the three pages are compared with each other.
bench-documents: ## bench-fib, bench-engine and bench-peers in one run, written into their pages in docs
	$(MAKE) bench-fib ARGS="--document docs/bench-fib.md $(ARGS)"
	$(MAKE) bench-engine ARGS="--document docs/bench-engine.md"
	$(MAKE) bench-peers ARGS="--document docs/bench-peers.md"

# A part, or fewer routes: make bench-scale ARGS="--only mtu --divide 10"
bench-scale: build ## How long the control loop follows nothing while something large changes; the aim is 10 ms
	@scripts/as-root $(PYTHON) lab/bench/scale/bench.py $(ARGS)

bench-tester: deps ## The tester's ways to send, beside DPDK and the kernel's own means; pacing
	@scripts/deps-bench
	$(CARGO) build --release -p bora-bench --bin bench-tester
	@scripts/as-root scripts/with-huge-pages 160 target/release/bench-tester $(ARGS)

hero-deps:
	@scripts/deps-hero

hero-model: hero-deps ## HERO: the library with four simulated cards, for `bora run`
	$(HERO) hero/model/build.py xbar

hero-device: deps ## HERO: target/release/hero-device, the cards for virtual machines
	$(CARGO) build --release -p hero-device

hero-guest: hero-model hero-device vm-deps ## HERO: a virtual machine with the cards; ARGS as for hero/guest/run.py
	@scripts/as-root $(PYTHON) hero/guest/run.py $(ARGS)

# One kernel: make hero-module ARGS=6.12
hero-module: ## HERO: hero.ko, the driver for Linux, for three of Debian's kernels in target/hero/linux
	@scripts/as-root $(PYTHON) tests/vm/headers.py hero/linux target/hero/linux $(ARGS)

hero-dkms: ## HERO: the driver for Linux as a Debian package that builds it for each kernel, target/debian/hero-dkms_VERSION_all.deb
	@scripts/deb-hero-dkms $(VERSION)

hero-lint: hero-deps ## HERO: Verilator's lint of all modules; a check of all clock crossings
	$(HERO) hero/lint.py
	$(HERO) hero/crossings.py

hero-formal: hero-deps ## HERO: proofs of its properties, and planted faults that they must find
	$(HERO) hero/formal/run.py

# What its tests in virtual machines need.
hero-qemu: hero-model hero-device
	@scripts/as-root $(PYTHON) tests/vm/qemu.py >/dev/null

HERO_TB := $(HERO) -m pytest hero -q -n 2 --dist loadfile
hero-tb: hero-deps hero-qemu ## HERO: benches of the modules and of the system, on simulators
	$(HERO_TB) -m "not long"

hero-test: hero-lint hero-formal hero-tb ## HERO: lint, proofs and benches

hero-quick: hero-lint
	$(HERO) hero/formal/run.py --quick
	$(HERO_TB) -m "not long and not slow"

hero-long: hero-deps hero-qemu vm-deps hero-module ## HERO: the long runs
	$(HERO_TB) -m long
	$(MAKE) --no-print-directory hero-board

HERO_DEBUG := bring_up,self_test,pings,tcp,routes,neighbour,xdp,down_and_up,resets,link_loss,bus_errors,lost_frames,unplug,leaks
hero-debug: hero-qemu vm-deps ## HERO: hero.ko on a kernel with KASAN, lockdep and kmemleak, which is built first
	@scripts/install bc bison flex gcc libelf-dev libssl-dev make xz-utils
	@scripts/as-root $(PYTHON) hero/guest/debug_kernel.py
	@scripts/as-root env VM_BOOT_SECONDS=1800 $(PYTHON) hero/guest/run.py --kernel debug --driver --seconds 7200 --steps $(HERO_DEBUG)

hero-regress: hero-test hero-long hero-debug ## HERO: all of it

hero-syn: hero-deps ## HERO: resources and Fmax (ECP5), written to hero/syn/REPORT.md
	$(HERO) hero/syn/run.py

# The board's older FPGA: make hero-board ARGS="--device um"
hero-board: hero-deps ## HERO: the bitstream for Lattice's ECP5 Versa board, target/hero/board/hero_board.bit
	$(HERO) hero/crossings.py board
	$(HERO) hero/board/build.py $(ARGS)

bench-hero: hero-deps ## HERO: throughput, latency and priorities of four cards
	$(HERO) hero/bench/run.py $(ARGS)

.PHONY: test-selftests
# A part: make test-selftests ARGS="--mode engine router_multipath.sh"; it takes hours without KVM.
test-selftests: build ## Linux's own forwarding tests in a guest, without Bora and with it
	@scripts/deps-selftests
	@scripts/as-root $(PYTHON) tests/vm/selftests/run.py $(ARGS)

.PHONY: deny advisories
deny: deps ## Licences, sources and duplicates of the dependencies, by cargo-deny (deny.toml)
	@scripts/deps-deny
	$(CARGO) deny check licenses bans sources

advisories: deps ## Known defects of the dependencies, by RustSec's database (from GitHub)
	@scripts/deps-deny
	$(CARGO) deny check advisories

fmt: ## Format the code
	$(CARGO) fmt --all

clean: ## Remove what was built
	$(CARGO) clean
