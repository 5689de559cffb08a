"""ENVI files for tests, written by hand in every layout."""

import numpy as np

from dbdl.maps.envi import DTYPES

ORDER = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}


def write_cube(folder, values, *, interleave="bsq", byte_order=0, offset=0, name="scene", **fields):
    """Write values (lines, samples, bands); returns the header."""
    number = next(n for n, kind in DTYPES.items() if np.dtype(kind) == values.dtype)
    stored = values.transpose(ORDER[interleave]).astype(
        values.dtype.newbyteorder("<" if byte_order == 0 else ">")
    )
    (folder / f"{name}.img").write_bytes(b"\7" * offset + stored.tobytes())
    lines, samples, bands = values.shape
    known = {
        "lines": lines, "samples": samples, "bands": bands, "data type": number,
        "interleave": interleave, "byte order": byte_order, "header offset": offset,
    }  # fmt: skip
    known |= {key.replace("_", " "): value for key, value in fields.items()}
    text = "ENVI\n" + "".join(f"{key} = {value}\n" for key, value in known.items())
    header = folder / f"{name}.hdr"
    header.write_text(text)
    return header


def some_values(dtype=np.int16, shape=(5, 4, 3)):
    rng = np.random.default_rng(0)
    return (100 * rng.random(shape)).astype(dtype)
