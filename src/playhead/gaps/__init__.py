"""Gaps: what a target lacks of a topic."""
