"""COIL-20: 20 objects on a turntable, 72 views each, as 32×32 pixels."""

from __future__ import annotations

from dbdl.datasets.formats import pixels_by_columns
from dbdl.datasets.source import Form, Source

_READ = pixels_by_columns(32, 32)

SOURCE = Source(
    "coil20",
    "COIL-20",
    (
        Form(
            "coil20_32x32.npz",
            ("pixels",),
            "pixels in the order of columns, arrays X (1440, 1024) and y",
            _READ,
        ),
        Form("COIL20.mat", ("pixels",), "the same as arrays fea and gnd", _READ),
    ),
    "COIL20.mat (32×32) from www.cad.zju.edu.cn/home/dengcai/Data/MLData.html; the raw images from "
    "www.cs.columbia.edu/CAVE/software/softlib/coil-20.php",
)
