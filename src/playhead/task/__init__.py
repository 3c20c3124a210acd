"""What one task does: read a slice, cut it, write it, commit it."""
