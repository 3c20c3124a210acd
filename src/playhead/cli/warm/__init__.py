"""The warm engine: a process of the user that has a Spark session and runs commands in it."""
