"""Roots of many increasing functions at once."""

from collections.abc import Callable

import numpy as np

from ._checks import Floats


def bisect(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return, entry by entry, where an increasing function between ``low`` and ``high`` is zero.

    An end is returned where the sign does not change. Halving gives about 64 bits, of which a
    caller whose bracket is [0, high] keeps all near 0 that float64 can hold within 2^-64 high.
    """
    for _ in range(64):
        middle = (low + high) / 2
        below = function(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
