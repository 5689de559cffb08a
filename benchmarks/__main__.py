"""Measure speed and memory, one benchmark after the other.

    python -m benchmarks [--quick] [omp fit memory start rivals features peers]

All ratios come from one run on one machine, named first. Nothing else should run at the same time.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NAMES = ("omp", "fit", "memory", "start", "rivals", "features", "peers")


def describe_machine() -> str:
    """Processor, cores, load, and versions of what does the work."""
    lines = [f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"]
    if hasattr(os, "getloadavg"):
        load = os.getloadavg()[0]
        lines[0] += f", load {load:.1f}"
        if load > 0.5:
            lines.append("Other work runs on this machine: the figures are contended.")
    packages = ("numpy", "scipy", "scikit-learn", "numba", "spams-bin", "dictlearn", "dbdl")
    lines.append(", ".join([f"Python {platform.python_version()}", *map(_version, packages)]))
    return "\n".join(lines)


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        if package == "dbdl":  # run from its source folder
            return f"dbdl {import_module('dbdl').__version__}"
        return f"{package} (absent)"


def main() -> None:
    """Parse the command line and run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"unknown benchmark {name!r}; there are {', '.join(NAMES)}")
    print(describe_machine(), flush=True)
    for name in arguments.names or NAMES:
        print(f"\n== {name} ==\n", flush=True)
        start = time.perf_counter()
        import_module(f"benchmarks.bench_{name}").run(arguments.quick)
        print(f"({name}: {time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
