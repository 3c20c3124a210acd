"""The story on real servers: a database loses power, the gap is found and filled."""
