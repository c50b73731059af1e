"""Side-by-side benchmarks: `make bench`, or `make bench ONLY=name`."""
