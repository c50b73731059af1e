"""The simulated driver: what each NVML function does, one file per topic; `simulate.nvml` puts it in place."""
