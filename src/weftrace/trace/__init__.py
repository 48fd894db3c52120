"""Traces: reading, writing, classing kernels, and joining device events to launches and phases."""

from weftrace.files.output import write_output
from weftrace.trace.chrome.annotate import Annotated, annotate
from weftrace.trace.chrome.lane_events import lane_events, running_total
from weftrace.trace.chrome.reader import read_chrome
from weftrace.trace.chrome.writer import chrome_text, write_chrome
from weftrace.trace.device_windows import step_windows
from weftrace.trace.job import Failure, Job, Outcome, find_traces, open_trace, read
from weftrace.trace.kernels import KernelRules, classify, load_rules
from weftrace.trace.model import EVENT_SCHEMA, Device, ReadQuality, Trace, Track, events_frame
from weftrace.trace.parquet import load_parquet, save_parquet
from weftrace.trace.phases import find_phases, find_steps
from weftrace.trace.work import WORK_SCHEMA, StepBy, Work, as_work, work_of, works_of

__all__ = [
    "EVENT_SCHEMA",
    "WORK_SCHEMA",
    "Annotated",
    "Device",
    "Failure",
    "Job",
    "KernelRules",
    "Outcome",
    "ReadQuality",
    "StepBy",
    "Trace",
    "Track",
    "Work",
    "annotate",
    "as_work",
    "chrome_text",
    "classify",
    "events_frame",
    "find_phases",
    "find_steps",
    "find_traces",
    "lane_events",
    "load_parquet",
    "load_rules",
    "open_trace",
    "read",
    "read_chrome",
    "running_total",
    "save_parquet",
    "step_windows",
    "work_of",
    "works_of",
    "write_chrome",
    "write_output",
]
