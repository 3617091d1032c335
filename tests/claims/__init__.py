"""Measurements behind the claim ledger, one module a chapter."""

# Importing a chapter registers its measurements.
from . import (  # noqa: F401
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_05,
    chapter_06,
    chapter_07,
    chapter_08,
    chapter_09,
    chapter_10,
    chapter_11,
    experiments,
)
