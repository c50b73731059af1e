"""libvgpu's shared regions: the files in which each container of HAMi keeps its own account of the GPU."""
