"""Consumer groups: members, lag, and safe changes of offsets."""
