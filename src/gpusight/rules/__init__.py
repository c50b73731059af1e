"""Prometheus rules as data, and their rendering."""
