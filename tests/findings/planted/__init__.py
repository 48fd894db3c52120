"""Traces of one process with planted causes, each with its cost: `cases`. Nothing of weftrace is imported."""

from tests.findings.planted.case import Case
from tests.findings.planted.catalogue import cases

__all__ = ["Case", "cases"]
