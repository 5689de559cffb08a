"""A fit that is interrupted leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

Method = TypeVar("Method", bound=Callable[..., Any])


def whole_or_not_at_all(method: Method) -> Method:
    """Undo what a method set on its estimator where it ends by an error or an interrupt.

    Attributes that are set, changed or removed are put back at once, and a ``random_state`` that
    was drawn from is put back where it stood, so that the same call gives what it would have
    given. Fitted values are never changed in place, which makes a list of the attributes enough.
    To stand above scikit-learn's decorators, which have to undo their own first.
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
