"""Measurements behind the claim ledger, one module a chapter."""

# Importing a chapter registers its measurements.
from . import chapter_01, chapter_02, chapter_03, chapter_04  # noqa: F401
