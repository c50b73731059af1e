"""gpusight: one observability stack for shared GPUs."""

__version__ = "0.1.0"
