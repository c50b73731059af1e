"""Snapshots to samples, one module per topic; `run` runs them isolated and timed."""
