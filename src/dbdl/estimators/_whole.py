"""A fit that is interrupted leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

Method = TypeVar("Method", bound=Callable[..., Any])


def whole_or_not_at_all(method: Method) -> Method:
    """Restore an estimator if one of its methods ends with an error or an interrupt.

    Attributes that were set, changed or removed are restored, and so is the state of a
    ``random_state``, so that repeating the call gives the same result. Fitted values are never
    changed in place, so a shallow copy of the attributes is enough. This decorator must be outside
    scikit-learn's, which undo their own changes first.
    """

    @wraps(method)
    def whole(self: Any, *arguments: Any, **named: Any) -> Any:
        before, random = dict(vars(self)), vars(self).get("random_state")
        drawn = random.get_state() if isinstance(random, np.random.RandomState) else None
        try:
            return method(self, *arguments, **named)
        except BaseException:
            if drawn is not None:
                random.set_state(drawn)
            self.__dict__ = before
            raise

    return whole  # type: ignore[return-value]
