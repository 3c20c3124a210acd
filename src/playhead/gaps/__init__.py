"""What a target does not have of a topic."""
