"""Filters for pairs of captured traffic."""
