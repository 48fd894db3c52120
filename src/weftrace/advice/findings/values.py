"""Kept until all rules import from `weftrace.analysis.findings`."""

from weftrace.analysis.findings import Confidence as Confidence
from weftrace.analysis.findings import Finding as Finding
from weftrace.analysis.findings import Number as Number
from weftrace.analysis.findings import Where as Where
