"""Consumer groups: where a reset leads, what that brings again or skips, and how it is taken back."""
