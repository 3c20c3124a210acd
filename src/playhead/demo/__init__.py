"""The demo on real servers: a database loses power, and the gap is found and filled."""
