"""A seeded fleet that needs no GPU: fake NVML behind the real binding, cache files, pods. Demo and tests share it."""
