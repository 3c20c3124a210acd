"""The warm engine: a process of the user's that has a Spark session, and runs commands in it."""
