# SPDX-License-Identifier: Apache-2.0
#
# The targets, run inside the build root.  "## " behind a target is its help.
#
# build/gcc and build/clang are release builds, build/asan-* carry ASan and
# UBSan, build/fuzz is clang with libFuzzer, build/cov counts lines.

comma   := ,
SUITE   ?=
SECONDS ?= 60
ONLY    ?=
NAME    ?= base
CMD     ?=

SETUP   := meson setup --werror
RELEASE := -Dbuildtype=debugoptimized -Db_pie=true
SAN     := -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false

.DEFAULT_GOAL := all
.PHONY: all help check lint asan coverage fuzz proof bench bench-full full sweep overload mutants repro hardening docs image shell run clean FORCE

all: build/gcc ## build with gcc into build/gcc

help: ## this list

build/gcc:        FLAGS := $(RELEASE)
build/clang:      FLAGS := $(RELEASE)
build/asan-gcc:   FLAGS := $(SAN)
build/asan-clang: FLAGS := $(SAN)
build/fuzz:       FLAGS := $(SAN) -Dfuzz=true
build/cov:        FLAGS := -Dbuildtype=debug -Db_coverage=true
build/clang build/asan-clang build/fuzz: export CC := clang

build/gcc build/clang build/asan-gcc build/asan-clang build/fuzz build/cov: FORCE
	@dev/compile $@ $(SETUP) $(FLAGS)

check: build/gcc ## run the tests [SUITE=unit,fuzz,platform]
	@dev/check build/gcc $(SUITE)

lint: build/gcc build/clang ## layers, sizes, banned calls, format, analysers, OpenAPI, generated files
	@dev/lint

asan: build/asan-gcc build/asan-clang ## the tests under ASan + UBSan, both compilers; daemons with gcc's
	@dev/check build/asan-gcc $(SUITE)
	@dev/check build/asan-clang $(subst $(comma)integration,,$(SUITE))

coverage: build/cov ## line coverage of src/{text,wire,ops,auth}; fails below 95 %
	@dev/coverage build/cov

fuzz: build/fuzz ## every fuzzer for SECONDS=60 [ONLY=a,b]
	@dev/fuzz build/fuzz $(SECONDS) $(ONLY)

proof: ## CBMC proves the decoders of tests/proof [ONLY=a,b]
	@dev/proof $(ONLY)

bench: build/gcc build/images/base ## measure, write build/bench.json, print a table [ONLY=a,b]
	@dev/bench build/gcc $(ONLY)

full: export CAY_FULL := 1
full: build/gcc ## sim, integration, world and attack suites at full size
	@dev/check build/gcc sim,integration,world,attack

sweep: export CAY_FULL := 1
sweep: build/gcc ## kill the daemons and the runtime at every failpoint and every system call: twenty minutes [ONLY=crun]
	@env CAY_BUILD=build/gcc timeout 3000 pytest-3 -q -rP -p no:cacheprovider tests/integration/control/test_sweep.py $(if $(ONLY),-k "$(ONLY)")

overload: export CAY_FULL := 1
overload: build/gcc ## a node on a fifth of a core asked for twenty times what it can do: five minutes
	@env CAY_BUILD=build/gcc timeout 900 pytest-3 -q -rP -p no:cacheprovider tests/integration/edge/test_overload.py

bench-full: export CAY_FULL := 1
bench-full: bench ## the same at the sizes the goals are for: ten minutes and most of the memory

build/images/base:
	@$(MAKE) --no-print-directory image NAME=base

mutants: ## break the code on purpose; a test must notice [ONLY=a,b] [SAMPLE=2]
	@env MUTANTS_SAMPLE=$(SAMPLE) dev/mutants $(ONLY)

hardening: build/gcc ## programs have what their flags promise
	@dev/hardening build/gcc

repro: build/gcc ## build again in another place; the bytes must be equal
	@env FLAGS="$(RELEASE)" dev/repro

docs: build/gcc ## write what the tables say into docs/
	@dev/docs build/gcc docs

shell: ## a shell in the build root
	@exec bash

clean: ## remove build/
	rm -rf build

image: ## build a guest image into build/images [NAME=base]
	@[ -d guest/images/$(NAME) ] || { echo "make image: there is no guest/images/$(NAME); NAME is one of:" guest/images/*/ | sed 's#guest/images/##g; s#/##2g'; exit 1; }
	@mkdir -p build/images
	@guest/images/build $(NAME) build/images/$(NAME)

run: all ## start keeper and control of this tree with a shell to use them [CMD='cay run base -- echo hi']
	@dev/run build/gcc $(CMD)
