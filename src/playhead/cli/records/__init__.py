"""Records in and out of the terminal."""
