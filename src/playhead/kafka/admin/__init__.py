"""Clients, errors, topics, offsets and the broker's own socket."""
