"""Everything that imports pyspark: the JVM it runs on, the session, and its start-up cache."""
