"""Compare records, such as fitted views, bit by bit."""

import numpy as np

from dbdl.model.record import Record


def assert_same_record(found, expected):
    """Compare the fields of two records, and those of the records inside them."""
    assert type(found) is type(expected)
    for name, part in expected.__getstate__().items():
        own = getattr(found, name)
        if isinstance(part, Record):
            assert_same_record(own, part)
        else:
            np.testing.assert_array_equal(own, part, err_msg=name)
