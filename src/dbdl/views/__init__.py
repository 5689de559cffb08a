"""Views of rows: maps, learned from training rows, after which the noise is nearly white."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dbdl.model.trust import check
from dbdl.views.kernel import FittedKernelView, KernelView
from dbdl.views.own import FittedOwnView, OwnView
from dbdl.views.sums import LabelledRows, evenly_spread
from dbdl.views.view import FEW_ATOMS_OF, FEW_PER_ROW, VIEWS, FittedView, View

__all__ = [
    "AUTOMATIC",
    "AUTOMATIC_FOR_FEW_ATOMS",
    "AUTOMATIC_LINEAR",
    "LEAST_ROWS_OF_KERNELS",
    "VIEWS",
    "Fitted",
    "FittedKernelView",
    "FittedOwnView",
    "FittedView",
    "KernelView",
    "LabelledRows",
    "OwnView",
    "Recipe",
    "View",
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
#: and neighbours differ. Chosen on training rows of nine data sets: docs/design.md.
AUTOMATIC = (
    "kernel of unit half-whitened + constant",
    "scaled and half-whitened + constant",
    "kernel of plain + constant",
    "unit half-whitened + constant",
    "kernel of scaled and half-whitened + constant",
    "plain + constant",
    "standardised + constant",
)

#: The views of "auto" where all have to be linear maps. With fewer rows than
#: `LEAST_ROWS_OF_KERNELS`, a kernel would compare new rows with hardly any others.
AUTOMATIC_LINEAR = (
    "unit half-whitened + constant",
    "plain + constant",
    "unit scaled and half-whitened + constant",
    "plain",
    "standardised + constant",
    "unit whitened + constant",
    "scaled and half-whitened + constant",
)
LEAST_ROWS_OF_KERNELS = 100

#: The views of "auto" for few atoms, at most this share of the rows. They have to stand for many
#: rows, and whitening shows what these have in common.
AUTOMATIC_FOR_FEW_ATOMS = (
    "unit scaled and whitened + constant",
    "unit half-whitened + constant",
    "unit whitened",
    "plain + constant",
    "whitened + constant",
    "plain",
    "unit whitened + constant",
)
FEW_ATOMS = 0.3


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
    wanted: Any, normalize: bool = True, atoms_per_row: float = 1.0, linear: bool = False
) -> tuple[Recipe, ...]:
    """Return the views that a parameter asks for: "auto", a name, a view, a transformer, or a list.

    Without ``normalize`` rows are used as they are, so "auto" means the plain view. With ``linear``
    it has no kernel views.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from dbdl.views import make_views
    >>> len(make_views("auto"))
    7
    >>> [view.name for view in make_views(["plain", PCA(5)])]
    ['plain', 'PCA(n_components=5)']
    """
    if isinstance(wanted, str) and wanted == "auto":
        wanted = AUTOMATIC_LINEAR if linear else AUTOMATIC
        wanted = wanted if atoms_per_row > FEW_ATOMS else AUTOMATIC_FOR_FEW_ATOMS
        wanted = wanted if normalize else "plain"
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
