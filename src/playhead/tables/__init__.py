"""What targets that write rows have in common, whatever their database; the SQL is in their own folders."""
