"""Rows staged and merged into a table by its conflict rule."""
