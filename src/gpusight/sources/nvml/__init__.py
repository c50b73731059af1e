"""NVIDIA's management library, opened by one supervised child process only.

`supervisor` is what the agent imports: it starts `child`, asks it for sweeps and outlives whatever the driver does to
it. `calls`, `tables`, `reader`, `gpm`, `mig`, `processes` and `xid` run in the child; `wire` is what the two speak.
"""
