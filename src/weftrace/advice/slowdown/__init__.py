"""How much longer does a job take than with every operation at its peers' pace, who makes it so, and why?

`pace` says what each op would take at its peers' pace, `replays` runs the plan with other durations, `causes` finds the
kinds of cause and repairs each, `answers.slowdown_of` puts it together. `weftrace.analysis.job_slowdown` has the
values.
"""
