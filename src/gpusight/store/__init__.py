"""Samples over time: what a Prometheus-compatible server keeps, or what we scrape into a file of our own."""
