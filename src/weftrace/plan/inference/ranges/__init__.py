"""The plan of a job that ranges tell: what trainers and schedulers log of forwards, backwards, sends and collectives.

`ops` reads the ranges as ops in lanes, `passing` says which range of a rank needs what another made, `votes` finds what
else a range waited for, `cutting` and `gathering` what began in the midst of others or with other ranks, `inferring` puts the plan together.
"""
