"""What several tests need: ports, clients, servers in a thread, a real Prometheus, certificates."""
