"""The stores of archives: a folder, or S3."""
