"""Check what a release would contain: build it, install it, and test it as its users would.

    python tools/release_check.py [--quick] [--tests "options of pytest"]

1. An sdist and a wheel are built into `dist/`, and their metadata and licences are checked.
2. The wheel is installed in an empty environment with no extras. `import dbdl`, the command and the
   code of the README run there. Blocks that need an optional package are named and left out.
3. The fast tests of the unpacked sdist run on the wheel with the extra `test`. `--quick` leaves
   this out, and `--tests` narrows it down.

It stops at the first step that fails. `make release-check` runs it with what it needs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
FAST = ["-n", "auto", "-m", "not slow and not release"]
#: Where the installed package has to come from, and not from the checkout.
ORIGIN = "import dbdl, sys; assert dbdl.__file__.startswith(sys.prefix), dbdl.__file__"
IMPORTS = "from dbdl import *; import dbdl.persistence, dbdl.report, dbdl.plotting, dbdl.datasets"


def say(words: str) -> None:
    """Print the name of a step."""
    print(f"\n=== {words}", flush=True)


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command away from the checkout's own settings; end with its status if it fails."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "DBDL_DATA")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    print("$", shlex.join(map(str, command)), flush=True)
    status = subprocess.run(command, cwd=cwd, env=environment, check=False).returncode
    if status != 0:
        sys.exit(f"release-check failed: {shlex.join(map(str, command))} ended with {status}")


def build() -> tuple[Path, Path]:
    """Build from a clean `dist/`; returns the sdist and the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT, cwd=ROOT)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=ROOT)
    return sdist, wheel


def check_contents(wheel: Path) -> None:
    """Compare the wheel's files with those of the checkout, and look at its metadata."""
    package = ROOT / "src" / "dbdl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(about).decode())
    licence = f"{about.removesuffix('METADATA')}licenses/LICENSE"
    sources = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    foreign = {name for name in names if not name.startswith("dbdl") or "__pycache__" in name}
    problems = {
        "files of the package are missing": sources - names,
        "files that belong elsewhere": foreign,
        "no licence file": {licence} - names,
        "no licence in the metadata": {"BSD-3-Clause"} - {metadata["License-Expression"]},
    }
    for words, found in problems.items():
        if found:
            sys.exit(f"release-check failed: {words}: {sorted(found)}")
    print(f"dbdl {metadata['Version']}: {len(sources)} files, {metadata['License-Expression']}")


def environment(folder: Path, *requirements: str) -> Path:
    """Make a virtual environment with some packages; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", *requirements, cwd=folder)
    run(*pip, "check", cwd=folder)
    return python


def main() -> None:
    """Run the steps in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the tests")
    parser.add_argument("--tests", default="", help="options of pytest, such as 'tests/rows -x'")
    arguments = parser.parse_args()
    say("Build an sdist and a wheel")
    sdist, wheel = build()
    check_contents(wheel)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = folder.glob("dbdl-*")
        say("Use the wheel with no extras")
        python = environment(folder / "bare", str(wheel))
        (empty := folder / "empty").mkdir()
        run(python, "-c", f"{ORIGIN}; {IMPORTS}", cwd=empty)
        run(python.with_name("dbdl"), "methods", cwd=empty)
        run(python, unpacked / "tools" / "run_readme.py", cwd=empty)
        if arguments.quick:
            say("In order so far; the tests were left out")
            return
        say("Run the fast tests of the sdist on the wheel")
        python = environment(folder / "tests", f"{wheel}[test]")
        run(python, "-c", ORIGIN, cwd=unpacked)
        run(python, "-m", "pytest", *FAST, *shlex.split(arguments.tests), cwd=unpacked)
    say("The release is in order")


if __name__ == "__main__":
    main()
