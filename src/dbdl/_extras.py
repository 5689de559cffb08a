"""Words for optional packages that are missing.

dbdl imports them only when they are needed. The advice names what to install by the packages' own
names, so that it is true in a checkout and wherever dbdl came from.
"""

from __future__ import annotations

#: What pip has to install before a module can be imported. The extras in pyproject.toml have these.
REQUIREMENTS = {
    "arviz_base": "arviz-base",
    "distributed": "'dask[array,dataframe,distributed]'",
    "h5py": "h5py",
    "openpyxl": "openpyxl",
    "pyarrow": "pyarrow",
    "rasterio": "rasterio",
    "torch": "torch",
    "triton": "triton",
    "xarray": "xarray",
    "zarr": "zarr",
}


def how_to_install(module: str) -> str:
    """Return the command that installs an optional module.

    Parameters
    ----------
    module : str
        Name of the module, as in an import.

    Returns
    -------
    command : str
        A line for the shell.

    Examples
    --------
    >>> from dbdl._extras import how_to_install
    >>> how_to_install("arviz_base")
    'pip install arviz-base'
    """
    return f"pip install {REQUIREMENTS[module]}"
