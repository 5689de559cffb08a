"""Run the tests of bits once for every kind of processor that this machine can imitate.

    python tests/every_processor.py [options of pytest]

OpenBLAS, NumPy and numba choose their kernels by the processor. Environment variables make them
choose as they would on another one. `make test-bits` runs this script.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

#: Kernels of OpenBLAS, and what a processor has to offer to run them.
CORE_TYPES = {
    "SkylakeX": "avx512f",
    "Haswell": "avx2",
    "Zen": "avx2",
    "Sandybridge": "avx",
    "Nehalem": "sse4_2",
    "Prescott": "sse2",
}
#: Vector instructions that NumPy may be told to do without.
WITHOUT = "AVX512F AVX512CD AVX512_SKX AVX512_ICL AVX512_SPR AVX2 FMA3 X86_V3 X86_V4"


def kinds(flags: set[str]) -> dict[str, dict[str, str]]:
    """Variables that imitate each kind of processor, by its name."""
    found = {
        f"OpenBLAS for {name}": {"OPENBLAS_CORETYPE": name}
        for name, needed in CORE_TYPES.items()
        if needed in flags
    }
    if "avx2" in flags:
        found["NumPy without AVX2"] = {"NPY_DISABLE_CPU_FEATURES": " ".join(_known(WITHOUT))}
    found["numba for any processor"] = {"NUMBA_CPU_NAME": "generic"}
    return found


def _known(names: str) -> list[str]:
    """Those of some instructions that this NumPy can leave out; others it would complain of."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in names.split() if name in __cpu_dispatch__ and __cpu_features__[name]]


def processor_flags() -> set[str]:
    """What the processor offers, where the system says so."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def main() -> None:
    """Run the tests for each kind; the exit code says whether all passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "bits", *sys.argv[1:]]
    answers = {}
    for name, variables in kinds(processor_flags()).items():
        print(f"\n== {name} ==", flush=True)
        start = time.perf_counter()
        done = subprocess.run(command, env=os.environ | variables, check=False)
        answers[name] = done.returncode, time.perf_counter() - start
    print("\nTests of bits")
    for name, (code, seconds) in answers.items():
        print(f"  {name:30s} {'passed' if code == 0 else 'FAILED'} in {seconds:.0f} s")
    sys.exit(any(code for code, _ in answers.values()))


if __name__ == "__main__":
    main()
