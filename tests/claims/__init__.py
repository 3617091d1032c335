"""Measurements behind the claim ledger, one module a chapter."""

from . import chapter_03  # noqa: F401  (importing a chapter registers its measurements)
