"""Datagrams: where they arrive, how they are read, and how many the kernel threw away."""
