"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

    python tools/lowest.py [extra ...]

`make test-lowest` installs them. Only the packages that pyproject.toml names are held at their
lowest version; pip chooses the packages that those need.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extras>[^\]]*)\])?((>=|~=)(?P<lowest>[\w.]+))?")


def requirements(project: dict[str, Any], extra: str | None = None) -> Iterator[re.Match[str]]:
    """Yield the requirements of the package, or of one of its extras with those that it names."""
    lines = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    for line in lines:
        found = REQUIREMENT.match(line)
        if found["name"] == project["name"]:
            for other in found["extras"].split(","):
                yield from requirements(project, other)
        else:
            yield found


def constraints(project: dict[str, Any], extras: list[str]) -> list[str]:
    """Return a line ``name==version`` for each package."""
    found = (found for extra in (None, *extras) for found in requirements(project, extra))
    return sorted({f"{one['name']}=={one['lowest']}" for one in found})


def main() -> None:
    """Print the constraints of the package and the extras that are named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    print(*constraints(project, sys.argv[1:]), sep="\n")


if __name__ == "__main__":
    main()
