"""Records as rows: JSON and metadata in the types of a table's columns."""
