"""Records sent as they come, each one acknowledged."""
