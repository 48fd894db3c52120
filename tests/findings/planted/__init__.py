"""Traces of one process with planted causes, each with what it costs: `cases`. Nothing of weftrace is imported."""

from tests.findings.planted.case import Case
from tests.findings.planted.catalogue import cases

__all__ = ["Case", "cases"]
