"""The plan of a job as its lanes show it, without hosts: of ranges, which trainers and schedulers log of forwards,
backwards, sends and collectives, or of work on devices.

`ops` reads the ranges as ops in lanes, `passing` says which range of a rank needs what another made, `votes` finds what
else a range waited for, `cutting` and `gathering` what began in the midst of others or with other ranks, `inferring`
puts the plan together.
"""
