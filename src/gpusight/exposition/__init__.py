"""Samples to bytes on a socket. `blocks` and `text` need the standard library only."""
