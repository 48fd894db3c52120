"""What weftrace promises about speed, memory and page size, measured: `make bench`, or `python -m benchmarks`.

inputs.py, stacks.py and shapes.py make the files, schedules.py the plans; tasks.py, experts.py, flops.py, plan.py,
pipeline.py, inference.py, comparison.py and questions.py hold what is timed, eplb.py the balancers that weftrace's is
compared with; measure.py runs a task in a process of its own, __main__.py compares with the targets. Nothing here is
imported by weftrace.
"""
