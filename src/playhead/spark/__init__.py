"""Spark: the only folder that imports pyspark: the JVM, the session, and the start-up cache."""
