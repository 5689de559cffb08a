"""All data sets by name; the command line, the experiments and the tests walk this list."""

from __future__ import annotations

from dbdl.datasets import ar, botswana, caltech101, coil20, scene15, ucf_sports, usps, yaleb
from dbdl.datasets.source import Source

_MODULES = (yaleb, ar, caltech101, scene15, ucf_sports, usps, coil20, botswana)


def sources() -> dict[str, Source]:
    """Return the data sets that are looked for on disk, by name.

    Returns
    -------
    sources : dict of str to Source

    Examples
    --------
    >>> from dbdl.datasets import sources
    >>> list(sources())
    ['yaleb', 'ar', 'caltech101', 'scene15', 'ucf_sports', 'usps', 'coil20', 'botswana']
    """
    return {module.SOURCE.name: module.SOURCE for module in _MODULES}
