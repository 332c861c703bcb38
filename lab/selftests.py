# SPDX-License-Identifier: GPL-2.0
"""The kernel's own selftests: built from the tree, run in a guest, read as KTAP.

The base kernel's mm programs run on base and on tiershift; what passes on
base must pass on ours.  Our own (tools/testing/selftests/tier, kmmscand, ...) run
on tiershift and on the debug kernel.
"""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import build, cache, guest, ktap, run, tree
from lab.build import KernelImage
from lab.topology import Topology


@dataclass(frozen=True)
class Program:
    """One test program: its name, arguments, time limit, and what to do before."""

    name: str
    args: str = ""
    timeout_s: int = 60
    before: str = "true"
    label: str = ""  # of its results, if the program runs more than once

    @property
    def key(self) -> str:
        """Names the results."""
        return self.label or self.name


# What promotes, and what finds hot pages: the second includes headers of the first.
TIER = ("tier", "kmmscand")
# Chosen for speed under emulation; see docs/lab.md for those left out and why.
MM = (
    Program("cow"),
    Program("pagemap_ioctl"),
    Program("ksm_functional_tests"),
    Program("mremap_test", timeout_s=120),
    Program("madv_populate"),
    # The debug kernel needs minutes for its first case.
    Program("soft-dirty", timeout_s=900),
    Program("transhuge-stress", "-d 10 64"),
    # Needs four CPUs: with fewer it skips every case and says so in no exit code.
    Program("migration", timeout_s=200),
)
# Some cases want hugetlb pages: without a reservation they fail everywhere.
PREPARE = "echo 8 > /proc/sys/vm/nr_hugepages"
# A third of cow's cases want to swap out what they have shared.  mremap_test maps what it needs
# next to what it has: with random addresses that is sometimes taken, on one of two kernels only.
MM_PREPARE = f"""{PREPARE}
echo 0 > /proc/sys/kernel/randomize_va_space
echo 256M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null
swapon /dev/zram0
"""


def programs(kernel: KernelImage, *collections: str, names: list[str] | None = None) -> Path:
    """Build selftests of tools/testing/selftests/<collection> from the kernel's source.

    Those of several collections come into one directory.
    """
    parts = [
        tree.git("rev-parse", f"{kernel.source_tree}:{path}")
        for path in (*(f"tools/testing/selftests/{name}" for name in collections), "include/uapi")
    ]
    wanted = names or ["all"]
    directory = cache.sub("programs") / f"{'-'.join(collections)}-{cache.key([*parts, *wanted])}"
    if directory.exists():
        return directory
    commit = build.commit_of(kernel.flavour, kernel.base_version)
    with cache.lock("build"):
        if not directory.exists():
            _make(kernel, commit, collections, names, directory)
    return directory


def _make(
    kernel: KernelImage,
    commit: str,
    collections: tuple[str, ...],
    names: list[str] | None,
    directory: Path,
) -> None:
    src = build.source_directory(commit)
    obj = build.object_directory(kernel.flavour, src)
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    run.output(["make", "-s", "-C", src, f"O={obj}", "headers"])
    for collection in collections:
        run.output(
            [
                "make",
                "-s",
                "-C",
                src / "tools/testing/selftests" / collection,
                f"OUTPUT={partial}",
                f"KHDR_INCLUDES=-isystem {obj}/usr/include",
                *(["all"] if names is None else [f"{partial}/{name}" for name in names]),
            ]
        )
    partial.rename(directory)


def run_programs(
    kernel: KernelImage,
    directory: Path,
    wanted: tuple[Program, ...],
    topology: Topology,
    out_dir: Path,
    prepare: str = PREPARE,
    append: str = "",
    *,
    single_thread_tcg: bool = False,
) -> dict[str, list[ktap.Case]]:
    """Run programs one after the other in one guest; their cases by program.

    A program that never ran because the guest went down gets a failed case.
    """
    shutil.rmtree(out_dir, ignore_errors=True)
    out_dir.mkdir(parents=True)
    lines = [prepare]
    for program in wanted:
        log = shlex.quote(str(out_dir / program.key))
        lines.append(program.before)
        # pagemap_ioctl and others look for files beside themselves
        lines.append(
            f"cd {shlex.quote(str(directory))} && timeout -k 5 {program.timeout_s} "
            f"./{program.name} {program.args} > {log}.log 2>&1 < /dev/null; echo $? > {log}.code"
        )
    budget = 120 + sum(program.timeout_s for program in wanted)
    guest.run(
        kernel.image,
        topology,
        "\n".join(lines),
        out_dir=out_dir,
        timeout_s=budget,
        append=f"kunit.enable=0 {append}".strip(),  # debug kernels take ten seconds for KUnit
        single_thread_tcg=single_thread_tcg,
    )
    cases: dict[str, list[ktap.Case]] = {}
    for program in wanted:
        code = out_dir / f"{program.key}.code"
        log_text = (out_dir / f"{program.key}.log").read_text(errors="replace")
        cases[program.key] = ktap.parse(log_text, int(code.read_text()))
    return cases


def cached_base(
    kernel: KernelImage,
    directory: Path,
    topology: Topology,
    out_dir: Path,
    wanted: tuple[Program, ...] = MM,
    prepare: str = MM_PREPARE,
    append: str = "",
) -> dict[str, list[ktap.Case]]:
    """Selftests on the unmodified kernel: kept, since neither side changes."""
    reader = Path(ktap.__file__).read_text(encoding="utf-8")
    facts = [kernel.key, directory.name, repr(topology), repr(wanted), prepare, append, reader]
    path = cache.sub("selftests") / f"base-{cache.key(facts)}.json"
    if not path.exists():
        cases = run_programs(
            kernel, directory, wanted, topology, out_dir, prepare=prepare, append=append
        )
        plain = {name: [asdict(case) for case in found] for name, found in cases.items()}
        path.write_text(json.dumps(plain, indent=1), encoding="utf-8")
    data = json.loads(path.read_text(encoding="utf-8"))
    return {name: [ktap.Case(**case) for case in found] for name, found in data.items()}
