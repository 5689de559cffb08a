"""Run the Python blocks of the README from top to bottom, as somebody would who pastes them.

    python tools/run_readme.py

Blocks that import a package which is not installed are named and left out. tests/test_documents.py
runs all blocks, with few sweeps. Files are written to the current folder.
"""

from __future__ import annotations

import ast
import re
import time
from importlib.util import find_spec
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
FENCE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def missing(code: str) -> set[str]:
    """Packages that a block imports and that are not installed."""
    nodes = list(ast.walk(ast.parse(code)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    packages = {name.partition(".")[0] for name in names}
    return {package for package in packages if find_spec(package) is None}


def main() -> None:
    """Run the blocks in one namespace; ends with status 1 if none could run."""
    names: dict[str, object] = {}
    n_run = 0
    for number, (_, code) in enumerate(FENCE.findall(README.read_text("utf-8")), 1):
        if absent := missing(code):
            print(f"block {number}: left out, needs {', '.join(sorted(absent))}", flush=True)
            continue
        start = time.perf_counter()
        exec(compile(code, f"README.md, block {number}", "exec"), names)
        print(f"block {number}: {time.perf_counter() - start:.1f} s", flush=True)
        n_run += 1
    if n_run == 0:
        raise SystemExit("no block of the README could run")


if __name__ == "__main__":
    main()
