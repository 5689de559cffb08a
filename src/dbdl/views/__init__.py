"""Views of rows: maps, learned from training rows, after which the noise is nearly white."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dbdl.model.trust import check
from dbdl.views.kernel import FittedKernelView, KernelView
from dbdl.views.own import FittedOwnView, OwnView
from dbdl.views.sums import LabelledRows, Shared, evenly_spread
from dbdl.views.view import FEW_ATOMS_OF, FEW_PER_ROW, VIEWS, FittedView, View

__all__ = [
    "AUTOMATIC",
    "AUTOMATIC_FOR_FEW_ATOMS",
    "AUTOMATIC_LINEAR",
    "FEW_ATOMS",
    "MORE_FOR_FEW_ROWS",
    "VIEWS",
    "Fitted",
    "FittedKernelView",
    "FittedOwnView",
    "FittedView",
    "KernelView",
    "LabelledRows",
    "OwnView",
    "Recipe",
    "Shared",
    "View",
    "atoms_per_row",
    "automatic_views",
    "evenly_spread",
    "make_views",
    "view_named",
]

#: Recipes of views, and views that were learned by them.
Recipe = View | KernelView | OwnView
Fitted = FittedView | FittedKernelView | FittedOwnView

#: Name of a kernel view: this, followed by the name of the view in which rows are compared.
KERNEL = "kernel of "

#: The views of "auto". Fewer chains take the first of them, so the best all-round view comes first,
#: and neighbours differ. Chosen on other data sets than those of the tables: docs/defaults.md.
AUTOMATIC = (
    "kernel of unit half-whitened + constant",
    "scaled and half-whitened + constant",
    "kernel of plain + constant",
    "unit half-whitened + constant",
    "kernel of scaled and half-whitened + constant",
    "plain + constant",
    "standardised + constant",
    "few atoms of unit scaled and whitened + constant",
    "few atoms of standardised + constant",
    "few atoms of whitened + constant",
)

#: Further views of "auto" for few rows, which are learned from in little time.
MORE_FOR_FEW_ROWS = (
    "kernel of standardised + constant",
    "unit scaled and half-whitened + constant",
    "kernel of unit whitened + constant",
)

#: The views of "auto" where all have to be linear maps.
AUTOMATIC_LINEAR = (
    "unit half-whitened + constant",
    "plain + constant",
    "unit scaled and half-whitened + constant",
    "plain",
    "standardised + constant",
    "unit whitened + constant",
    "scaled and half-whitened + constant",
)

#: The views of "auto" for few atoms, at most this share of the rows. They have to stand for many
#: rows, and whitening shows what these have in common.
AUTOMATIC_FOR_FEW_ATOMS = (
    "kernel of unit half-whitened + constant",
    "unit scaled and whitened + constant",
    "kernel of plain + constant",
    "unit half-whitened + constant",
    "kernel of scaled and half-whitened + constant",
    "plain + constant",
    "unit whitened + constant",
)
FEW_ATOMS = 0.3

#: The first view of "auto" for a few chains on wide rows: whitened rows with more features than
#: there are rows are about equally far apart, and a kernel of them says little.
FIRST_IF_WIDE = "unit half-whitened + constant"


def automatic_views(
    atoms_per_row: float = 1.0,
    *,
    linear: bool = False,
    few_rows: bool = False,
    one_size: bool = False,
    wide: bool = False,
) -> tuple[str, ...]:
    """Return the names of the views of "auto".

    Parameters
    ----------
    atoms_per_row : float
        Initial atoms per row.
    linear : bool
        Whether all have to be linear maps.
    few_rows : bool
        Whether there are so few rows that more views cost little.
    one_size : bool
        Whether all chains have the number of initial atoms that was asked for.
    wide : bool
        Whether there are more features than rows, and too few chains for all views.

    Examples
    --------
    >>> from dbdl.views import automatic_views
    >>> len(automatic_views()), len(automatic_views(few_rows=True))
    (10, 13)
    >>> automatic_views(linear=True)[0]
    'unit half-whitened + constant'
    """
    left_out = (KERNEL,) * linear + (FEW_ATOMS_OF,) * one_size
    names: tuple[str, ...]
    if atoms_per_row <= FEW_ATOMS:
        names = AUTOMATIC_FOR_FEW_ATOMS
    elif linear:
        names = AUTOMATIC_LINEAR
    else:
        names = AUTOMATIC + MORE_FOR_FEW_ROWS * few_rows
    names = tuple(name for name in names if not name.startswith(left_out))
    return tuple(dict.fromkeys((FIRST_IF_WIDE,) * wide + names))


def atoms_per_row(view: Recipe) -> float | None:
    """Return the initial atoms per row that a view asks for; None if it asks for none.

    Examples
    --------
    >>> from dbdl.views import atoms_per_row, view_named
    >>> atoms_per_row(view_named("few atoms of plain")), atoms_per_row(view_named("plain"))
    (0.1, None)
    """
    return view.atoms_per_row if isinstance(view, View) else None


def view_named(name: str) -> View | KernelView:
    """Return the view of a name such as "unit whitened + constant".

    Examples
    --------
    >>> from dbdl.views import view_named
    >>> view_named("plain + constant").constant
    True
    >>> view_named("kernel of plain").inner == view_named("plain")
    True
    """
    if name == "auto":
        raise ValueError(
            "there is no view 'auto': it stands for several views, and not in a list. Set views to "
            "'auto' alone, or to the names of views."
        )
    if name.startswith(KERNEL):
        inner = view_named(name.removeprefix(KERNEL))
        if isinstance(inner, View) and inner.atoms_per_row is None:
            return KernelView(inner)
    few = name.startswith(FEW_ATOMS_OF)
    base, plus, constant = name.removeprefix(FEW_ATOMS_OF).partition(" + ")
    unit = base.startswith("unit ")
    found = VIEWS.get(base.removeprefix("unit "))
    if found is None or (plus and constant != "constant"):
        raise ValueError(
            f"there is no view {name!r}. Expected 'auto', or one of {', '.join(map(repr, VIEWS))}, "
            "maybe with 'unit ' before it and ' + constant' after it, and 'kernel of ' or 'few "
            "atoms of ' before all. "
            "Set views to one of them."
        )
    per_row = FEW_PER_ROW if few else None
    return replace(found, unit=unit, constant=bool(plus), atoms_per_row=per_row)


def make_views(
    wanted: Any, normalize: bool = True, automatic: Sequence[str] = AUTOMATIC
) -> tuple[Recipe, ...]:
    """Return the views that a parameter asks for: "auto", a name, a view, a transformer, or a list.

    "auto" means the ``automatic`` views or, without ``normalize``, which uses rows as they are, the
    plain view.

    Examples
    --------
    >>> from dbdl.views import make_views
    >>> [view.name for view in make_views(["plain", "few atoms of whitened"])]
    ['plain', 'few atoms of whitened']
    """
    if isinstance(wanted, str) and wanted == "auto":
        wanted = automatic if normalize else "plain"
    alone = isinstance(wanted, str | View | KernelView) or hasattr(wanted, "transform")
    parts = [wanted] if alone or not isinstance(wanted, Iterable) else list(wanted)
    if not parts:
        raise ValueError("views is empty. Expected at least one view, or 'auto'.")
    return tuple(_make_view(part, normalize) for part in parts)


def _make_view(part: Any, normalize: bool) -> Recipe:
    is_class = isinstance(part, type)  # a transformer's, not a transformer
    if hasattr(part, "transform") and hasattr(part, "fit") and not is_class:
        return OwnView(part, normalize)
    if isinstance(part, str):
        part = view_named(part)
    if not isinstance(part, View | KernelView):
        raise ValueError(
            f"views has {part!r}. Expected 'auto', names of views, objects of dbdl.views.View or "
            "dbdl.views.KernelView, or transformers of scikit-learn."
        )
    check(type(part), part, "view")
    if normalize:
        return part
    if isinstance(part, KernelView) or replace(part, normalize=True, unit=False) != View():
        raise ValueError(
            f"normalize=False with the view {part!r}. Expected views='plain': other views scale "
            "rows to unit norm. Use normalize=True."
        )
    return View(normalize=False)
