# SPDX-License-Identifier: GPL-2.0
"""Packages that an operator installs beside Debian's kernel (make deb, make repo).

Only vmlinux, and modules that rooms patch, are compiled: with Debian's own configuration and
the options of the rooms.  All other modules are Debian's, as built by Debian.  They load
because every symbol that they use has the same checksum in our vmlinux; a package where that is
not so is never written (gate.py).

  debian.py   Debian's packages of one version: configuration, image, checksums
  gate.py     what has to hold of a vmlinux that Debian's modules are to load into
  modules.py  Debian's modules without what they say about types of Debian's vmlinux
  package.py  the directory tree and the control files, as a .deb
  headers.py  Debian's headers with what differs in our build, as a .deb
  sign.py     vmlinuz and modules signed for Secure Boot
  make.py     all of it in order, by content
  tools.py    packages without a kernel: tierctl, its manual, and what leads to the newest image
  repo.py     a directory that apt can use
  trial.py    install, boot, remove, purge: in a root file system of its own
"""

from lab.deb import make, repo, sign, tools

__all__ = ["make", "repo", "sign", "tools"]
