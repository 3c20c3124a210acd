"""Which pairs of captured traffic are meant."""
