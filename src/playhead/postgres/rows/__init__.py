"""Records as rows: JSON fields and metadata in the types of a table's columns."""
