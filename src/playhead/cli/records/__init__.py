"""The commands that print records and write lines as records."""
