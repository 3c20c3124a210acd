"""The commands on topics."""
