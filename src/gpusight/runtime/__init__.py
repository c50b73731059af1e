"""Composition roots, one per process: the only place that builds things up."""
