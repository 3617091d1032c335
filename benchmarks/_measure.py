"""What the benchmarks share: growth in T, and the peak memory of a call."""

import contextlib
import ctypes
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence

import numpy as np


def growth(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the exponent p of the power law seconds ~ sizes^p that fits best."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def peak_memory(call: Callable[[], object], warm_up: Callable[[], object]) -> float:
    """Return by how many bytes a call raises the peak memory of its process; NaN on Windows.

    It runs in a copy of this process, so that what is held already does not count; nor do the
    libraries that a small call loads, the warm-up.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return float("nan")
    import resource

    def peak() -> int:
        unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts bytes there, kB elsewhere
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with contextlib.suppress(AttributeError):  # memory that is free already would hide the call's
        ctypes.CDLL(None).malloc_trim(0)
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        warm_up()
        before = peak()
        call()
        os.write(sender, str(peak() - before).encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return float(text or "nan")


def megabytes(size: float) -> str:
    """Write a number of bytes in MB."""
    return f"{size / 1e6:.2g} MB" if size < 1e7 else f"{size / 1e6:.0f} MB"
