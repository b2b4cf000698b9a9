# SPDX-License-Identifier: Apache-2.0
#
# The targets, run inside the build root.  "## " behind a target is its help.
#
# build/gcc and build/clang are release builds, build/asan-* carry ASan and
# UBSan, build/fuzz is clang with libFuzzer, build/cov counts lines.

comma   := ,
SUITE   ?=
TEST    ?=
SPLIT   ?=
SAMPLE  ?=
RECENT  ?=
SECONDS ?= 60
ONLY    ?=
NAME    ?= base
CMD     ?=

SETUP   := meson setup --werror
RELEASE := -Dbuildtype=debugoptimized -Db_pie=true
SAN     := -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false

.DEFAULT_GOAL := all
.PHONY: all help quick check lint asan asan-clang coverage fuzz proof bench bench-full bench-kernels bench-screen full sweep overload ten-tenants soak e2b-upstream egress-sweep egress-decisions failed mutants repro hardening docs pictures image image-repro deb debs shell run guest guest-attack tenant-floods tenant-memory boot clean FORCE

all: build/gcc ## build with gcc into build/gcc

help: ## this list

build/gcc:        FLAGS := $(RELEASE)
build/clang:      FLAGS := $(RELEASE)
build/asan-gcc:   FLAGS := $(SAN)
build/asan-clang: FLAGS := $(SAN)
build/cov:        FLAGS := -Dbuildtype=debug -Db_coverage=true
build/clang build/asan-clang: export CC := ccache clang
# what is run of them; the others are built whole
build/asan-clang: export ONLY_IN := tests/unit|tests/sim|tests/fuzz|tests/platform
build/cov:        export ONLY_IN := tests/unit|tests/fuzz

build/gcc build/clang build/asan-gcc build/asan-clang build/cov: FORCE
	@dev/compile $@ $(SETUP) $(FLAGS)

quick: export LINT_CHANGED := 1
quick: build/gcc ## before a commit: lint of what changed, unit, sim, and one sandbox through every program: two minutes
	@dev/lint self_test,banned,layers,built,tables,sizes,shape,links,purity,documented,named,clang_format,generated
	@dev/check build/gcc unit,sim
	@dev/check build/gcc "" test_smoke

check: build/gcc ## run the tests [SUITE=unit,fuzz,platform], or one: [TEST=buf] a program, [TEST=control/test_life] a file, [TEST=pause_and_resume] by name
	@dev/check build/gcc "$(SUITE)" "$(TEST)"

# SPLIT=auto: an integration test runs either in build/gcc or in build/asan-gcc, by the seed of the commit
check asan: export CAY_SPLIT := $(SPLIT)

lint: build/gcc build/clang ## layers, sizes, banned calls, format, analysers, OpenAPI, generated files [RECENT=25]
	@env LINT_RECENT=$(RECENT) dev/lint

asan: build/asan-gcc ## the tests under ASan + UBSan [SUITE=unit,integration] [TEST=control/test_life]
	@dev/check build/asan-gcc "$(SUITE)" "$(TEST)"

asan-clang: build/asan-clang ## those that start no daemons under clang's
	@dev/check build/asan-clang unit,sim,fuzz,platform

coverage: build/cov ## line coverage of what reads untrusted bytes; fails below 95 % in text, wire, ops, auth, egress, below a floor elsewhere
	@dev/coverage build/cov

fuzz: ## every fuzzer for SECONDS=60 [ONLY=a,b] [SAMPLE=10: each once in ten commits]
	@env FUZZ_SAMPLE=$(SAMPLE) FUZZ_SETUP="$(SETUP) $(SAN) -Dfuzz=true" dev/fuzz build/fuzz $(SECONDS) $(ONLY)

proof: ## CBMC proves the decoders of tests/proof [ONLY=a,b]
	@dev/proof $(ONLY)

bench: build/gcc build/images/base ## measure, write build/bench.json, print a table [ONLY=a,b]
	@dev/bench build/gcc $(ONLY)

full: export CAY_FULL := 1
full: build/gcc ## sim, integration, world, attack and timing suites at full size
	@dev/check build/gcc sim,integration,world,attack,timing

sweep: export CAY_FULL := 1
sweep: build/gcc ## kill the daemons and the runtime at every failpoint and every system call: twenty minutes [ONLY=crun]
	@env CAY_BUILD=build/gcc timeout 3000 pytest-3 -q -rP -p no:cacheprovider tests/integration/control/test_sweep.py $(if $(ONLY),-k "$(ONLY)")

overload: export CAY_FULL := 1
overload: build/gcc ## a node on a fifth of a core asked for twenty times what it can do: five minutes
	@env CAY_BUILD=build/gcc timeout 900 pytest-3 -q -rP -p no:cacheprovider tests/integration/edge/test_overload.py

tenant-floods: export CAY_FULL := 1
tenant-floods: build/gcc ## each flood of reads and of unread replies by one tenant, in four forms, beside another: fifteen minutes [ONLY=events]
	@env CAY_BUILD=build/gcc timeout 3000 pytest-3 -q -rP -p no:cacheprovider tests/attack/test_tenant_floods.py $(if $(ONLY),-k "$(ONLY)")

tenant-memory: export CAY_FULL := 1
tenant-memory: build/gcc ## one tenant takes the memory of all, twenty times in each of six shapes, and a neighbour that comes later: fifteen minutes [ONLY=storm]
	@env CAY_BUILD=build/gcc timeout 3000 pytest-3 -q -rP -p no:cacheprovider tests/attack/test_tenant_memory.py $(if $(ONLY),-k "$(ONLY)")

ten-tenants: export CAY_FULL := 1
ten-tenants: build/gcc ## one tenant of ten does all its harm at once for ten minutes; what the other nine get done
	@env CAY_BUILD=build/gcc timeout 3000 pytest-3 -q -rP -p no:cacheprovider tests/attack/test_ten_tenants.py

soak: export CAY_FULL := 1
soak: build/gcc ## 20,000 rollouts of eight clients while edge, cayd, keeper and connections are killed: half an hour [COUNT=4000]
	@env CAY_BUILD=build/gcc CAY_ROLLOUTS=$(COUNT) timeout 7200 pytest-3 -q -rP -p no:cacheprovider tests/integration/edge/test_soak.py

egress-sweep: export CAY_FULL := 1
egress-sweep: build/gcc ## 1,000 starts, 100 kills of each program and 1,000 changes of a policy, and attacks from inside: not one packet leaves that is forbidden: half an hour
	@dev/ns-run env CAY_BUILD=build/gcc timeout 7200 pytest-3 -q -rP -p no:cacheprovider tests/integration/control/test_egress_sweep.py tests/integration/control/test_egress_attack.py \
		tests/integration/control/test_egress_inspect.py::test_requests_while_a_program_is_killed

egress-decisions: export CAY_FULL := 1
egress-decisions: build/gcc ## 100,000 decisions over several files of the log, without cayd and with clocks that go on by a day; none is lost: five minutes
	@dev/ns-run env CAY_BUILD=build/gcc timeout 3000 pytest-3 -q -rP -p no:cacheprovider tests/integration/control/test_egress_log.py -k no_decision

failed: export CAY_FULL := 1
failed: build/gcc ## 10,000 creates that fail at each stage there is; counts and memory come back: an hour [ONLY=claim]
	@env CAY_BUILD=build/gcc timeout 7200 pytest-3 -q -s -p no:cacheprovider tests/integration/control/test_failed.py $(if $(ONLY),-k "$(ONLY)")

e2b-upstream: build/gcc build/images/code ## the tests of E2B's own code interpreter for Python, from a checkout of its repository below this directory: two minutes [SRC=build/code-interpreter/python]
	@env CAY_BUILD=$(CURDIR)/build/gcc timeout 1800 python3 tests/integration/e2b/upstream.py $(SRC)

bench-full: export CAY_FULL := 1
bench-full: bench ## the same at the sizes the goals are for: ten minutes and most of the memory

bench-kernels: build/gcc build/images/jupyter ## kernels of Python and R beside ipykernel and IRkernel, in an image that has both: three minutes, three more for the image [ONLY=kernel_r]
	@dev/bench build/gcc $(if $(ONLY),$(ONLY),kernels)

bench-screen: build/gcc build/images/screen ## screens and browsers beside xdotool, scrot and Playwright, in an image that has them: two minutes, three more for the image [ONLY=page_steps]
	@dev/bench build/gcc $(if $(ONLY),$(ONLY),screens)

build/images/base build/images/code build/images/desktop:
	@$(MAKE) --no-print-directory image NAME=$(@F)

# not in guest/images: it is never shipped, and the images there are made again when a file there changes
build/images/jupyter: export CAY_BUILD_CACHE_S := 1200
build/images/jupyter: export CAY_BUILD_CACHE_AGAIN := 1
build/images/jupyter: | build/images/base
	@dev/build-cache $@ guest/images/build $(wildcard guest/images/*/* tests/bench/jupyter/*) -- guest/images/build $(CURDIR)/tests/bench/jupyter $@

build/images/screen: export CAY_BUILD_CACHE_S := 1200
build/images/screen: export CAY_BUILD_CACHE_AGAIN := 1
build/images/screen: | build/images/base
	@dev/build-cache $@ guest/images/build $(wildcard guest/images/*/* tests/bench/screen/*) -- guest/images/build $(CURDIR)/tests/bench/screen $@

mutants: ## break the code on purpose; a test must notice [ONLY=a,b] [SAMPLE=20: each once in twenty commits]
	@env MUTANTS_SAMPLE=$(SAMPLE) dev/mutants $(ONLY)

hardening: build/gcc ## programs have what their flags promise
	@dev/hardening build/gcc

repro: build/gcc ## build again in another place; the bytes must be equal
	@env FLAGS="$(RELEASE)" dev/repro

docs: build/gcc ## write what the tables say into docs/
	@dev/docs build/gcc docs

deb: ## the Debian package, into build/deb
	@dev/deb

debs: ## the packages that tests install, from the cache when nothing in them has changed
	@dev/debs

pictures: build/gcc build/images/base ## record docs/img/session.svg; draw docs/img/bench.svg from build/bench.json, if it is there
	@dev/ns-run dev/run build/gcc dev/picture docs/img/session docs/img/session.svg
	@[ ! -e build/bench.json ] || dev/plot build/bench.json docs/img/bench.svg

shell: ## a shell in the build root
	@exec bash

clean: ## remove build/
	rm -rf build

image: export CAY_BUILD_CACHE_S := 720
image: export CAY_BUILD_CACHE_AGAIN := 1
image: ## build a guest image into build/images [NAME=base|python|node|r|code|desktop]
	@[ -d guest/images/$(NAME) ] || { echo "make image: there is no guest/images/$(NAME); NAME is one of:" guest/images/*/ | sed 's#guest/images/##g; s#/##2g'; exit 1; }
	@[ ! -e guest/images/$(NAME)/from ] || $(MAKE) --no-print-directory image NAME=$$(cat guest/images/$(NAME)/from)
	@dev/build-cache build/images/$(NAME) guest/images/build $(wildcard guest/images/$(if $(filter base,$(NAME)),base,*)/*) -- guest/images/build $(NAME) build/images/$(NAME)

image-repro: image ## build it again, with the image below it; the digest must be the same [NAME=base]
	@rm -rf build/again
	@guest/images/build $(NAME) build/again/$(NAME)
	@cmp build/images/$(NAME)/index.json build/again/$(NAME)/index.json || { echo "image-repro: $(NAME) differs; both are in build/images and build/again"; exit 1; }
	@rm -rf build/again
	@echo "image-repro: $(NAME): equal digests"

guest: build/gcc ## tests/guest/suite on a stock kernel under qemu, pure cgroup v2, project quota, the walls: twenty minutes [ONLY=limits,attack] [CMD=...]
	@dev/guest -t 1800 $(if $(CMD),$(CMD),tests/guest/suite $(subst $(comma), ,$(ONLY)))

guest-attack: build/gcc build/images/base ## the whole attack suite on that kernel: two hours [ONLY=attack,res] [CMD="-k ESC_31"]
	@dev/guest -t 14400 -i env ATTACK_ONLY="$(ONLY)" ATTACK_ARGS="$(CMD)" tests/guest/suite attack-whole

boot: ## the package on a Debian 13 that boots under qemu, systemd as PID 1, and once more: fifteen minutes
	@dev/boot

run: all ## start keeper and control of this tree with a shell to use them [CMD='cay run base -- echo hi']
	@dev/run build/gcc $(CMD)
