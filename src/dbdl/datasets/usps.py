"""USPS: 9298 handwritten digits of 16×16 pixels, with a test set of 2007."""

from __future__ import annotations

from dbdl.datasets.formats import pixels_by_columns
from dbdl.datasets.source import Form, Source

SOURCE = Source(
    "usps",
    "USPS digits",
    (
        Form(
            "usps_16x16.npz",
            ("pixels",),
            "pixels in the order of columns, arrays X_train (7291, 256), y_train, X_test, y_test",
            pixels_by_columns(16, 16),
        ),
    ),
    "zip.train.gz and zip.test.gz from hastie.su.domains/ElemStatLearn/data.html, each image "
    "turned into the order of columns, saved as the arrays named above",
)
