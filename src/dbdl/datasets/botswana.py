"""Botswana: 3248 labelled pixels of a satellite's image in 145 spectral bands, 14 land covers."""

from __future__ import annotations

from dbdl.datasets.source import Form, Source

SOURCE = Source(
    "botswana",
    "Botswana spectra",
    (
        Form(
            "botswana_spectra145.npz",
            ("spectra",),
            "labelled pixels, arrays X (3248, 145) and y",
        ),
    ),
    "Botswana.mat and Botswana_gt.mat from "
    "www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes; save the pixels with a "
    "label as the arrays named above",
)
