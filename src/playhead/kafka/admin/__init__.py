"""Clients, errors, topics, offsets, and direct requests to a broker."""
