"""Advice on optional packages that are missing.

dbdl imports them only when they are needed. The advice names the packages themselves, not extras of
dbdl, so that it is right however dbdl was installed.
"""

from __future__ import annotations

#: The requirement that pip installs for each module. The extras in pyproject.toml have the same.
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
