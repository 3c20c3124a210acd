"""Archives of topics in Parquet, JSON Lines or CSV, in folders and in S3."""

from playhead.facade import make_callable

make_callable(__name__)
