"""The recordings that can be read, one module for each."""
