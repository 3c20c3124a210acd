"""A deterministic simulation: one thread, one clock and one seed play the product against model servers."""
