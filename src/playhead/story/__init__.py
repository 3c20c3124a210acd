"""The story that all of this serves, played on real servers with the same commands that a person would give."""
