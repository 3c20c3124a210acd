"""Reads PostgreSQL's statement logs: rows of every log format and version, and the statements in them."""
