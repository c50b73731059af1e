"""Sample programs: run one from the repository root with `python -m examples.<name>`."""
