"""Which container the kubelet gave which device, from its pod-resources socket."""
