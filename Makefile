# SPDX-License-Identifier: Apache-2.0
#
# The front door.  Outside the build root every target enters it by itself
# (dev/enter), so a Debian machine with make, git and root is all it takes.
# `make help` lists the targets; the rules themselves are in dev/targets.mk.

ifeq ($(wildcard /etc/cay-root),)

.DEFAULT_GOAL := all
.PHONY: root help
root:
	@dev/root >/dev/null

help:
	@grep -hE '^[a-z-]+:.*## ' dev/targets.mk | sed 's/:.*## /\t/' | expand -t 12

%: root
	@dev/enter make --no-print-directory $@ $(MAKEOVERRIDES)

Makefile: ;

else
include dev/targets.mk
endif
