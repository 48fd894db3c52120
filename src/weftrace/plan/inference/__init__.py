"""From a measured trace to the plan that it followed: what each op waited for, as far as the file tells or shows.

`inferring.infer` puts it together: `streams/` says what ran on the device and what held it back, `threads/` what the
host did. `joining` makes one plan of the ranks of a job, `phase_level` a smaller one of phases, `hostless` one of
device work alone. `values.Inferred` is what comes out; `replaying` says how far it is off.
"""
