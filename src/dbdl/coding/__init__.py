"""Sparse coding of rows over given atoms: functions, and coders as objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbdl.coding.coder import CodePrior, Coder, CodingBackend, PreparedAtoms, encode_each
from dbdl.coding.greedy import LENGTHS, Forward, Greedy, Orthogonal
from dbdl.coding.lasso import lasso
from dbdl.coding.lasso_path import LassoPath
from dbdl.coding.llc import llc
from dbdl.coding.omp import omp, omp_path
from dbdl.coding.posterior_mean import PosteriorMean
from dbdl.coding.simultaneous import SharedCodes, simultaneous_omp
from dbdl.model.trust import check

__all__ = [
    "FAMILIES",
    "CodePrior",
    "Coder",
    "CodingBackend",
    "Forward",
    "Greedy",
    "LassoPath",
    "Orthogonal",
    "PosteriorMean",
    "PreparedAtoms",
    "SharedCodes",
    "candidates",
    "encode_each",
    "lasso",
    "lengths_for",
    "llc",
    "omp",
    "omp_path",
    "simultaneous_omp",
]

#: Every family of coders by name.
FAMILIES: dict[str, type[Coder]] = {
    family.name: family for family in (Forward, Orthogonal, LassoPath, PosteriorMean)
}


def lengths_for(n_features: int) -> list[int]:
    """Numbers of non-zeros worth trying: up to half the features, or up to 4 if there are few.

    Examples
    --------
    >>> from dbdl.coding import lengths_for
    >>> lengths_for(30)
    [1, 2, 3, 4, 5, 7, 10, 14]
    """
    most = max(n_features // 2, min(n_features, 4))
    return [n for n in LENGTHS if n <= most]


def candidates(
    wanted: str | Coder | Iterable[str | Coder],
    lengths: Sequence[int],
    device: str = "cpu",
    *,
    few_rows: bool = False,
) -> list[Coder]:
    """List the coders to choose from, in order of preference if they do equally well.

    Parameters
    ----------
    wanted : str, Coder, or an iterable of these
        "auto" for every family that may be tried on the device; the name of a family, for its
        coders with the numbers of non-zeros in ``lengths``; a coder stands for itself.
    lengths : sequence of int
    device : str
        "cpu" or "cuda".
    few_rows : bool
        Whether few rows choose. "auto" then means the lasso's path alone, if it runs on the device:
        few rows cannot tell many coders apart, and more rows choose this family most often.

    Examples
    --------
    >>> from dbdl.coding import Forward, candidates
    >>> [coder.label for coder in candidates(["lasso", Forward(5)], [7, 14])]
    ['L14', 'F5']
    """
    parts = [wanted] if isinstance(wanted, str | Coder) else list(wanted)
    if not parts:
        raise ValueError("coder is empty. Expected at least one coder or family, or 'auto'.")
    if len(parts) == 1 and isinstance(parts[0], str) and parts[0] == "auto":
        families = [f for f in FAMILIES.values() if f.automatic and device in f.devices]
        if few_rows and LassoPath in families:
            families = [LassoPath]
        parts = [family.name for family in families]
    found: list[Coder] = []
    for part in parts:
        if isinstance(part, Coder):
            check(type(part), part, "coder")
            found.append(part)
        elif isinstance(part, str) and part in FAMILIES:
            found += FAMILIES[part].candidates(lengths, alone=len(parts) == 1)
        else:
            raise ValueError(
                f"coder is {part!r}. Expected 'auto', one of {sorted(FAMILIES)}, a coder such as "
                "dbdl.coding.Forward(20), or a list of these."
            )
    return list(dict.fromkeys(found))
