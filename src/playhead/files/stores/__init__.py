"""Where an archive lies: a folder, or S3."""
