"""Consumer groups: who reads, how far behind, and the safe reset."""
