"""The work of one task: read a slice, cut it, write it, commit it."""
