"""Traces of jobs of ranks, with planted causes and without: simulated here, by nothing of weftrace."""

from tests.findings.planted_jobs.catalogue import Case, cases

__all__ = ["Case", "cases"]
