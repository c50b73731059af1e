"""Checks of one installation: what was found, and what to do about it.

`table` says what there is to check, `subject` what it is checked on, `run` runs it, `report` and `bundle` tell.
"""
