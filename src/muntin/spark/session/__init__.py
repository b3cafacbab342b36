"""A Spark session fit for Muntin, and the Java that runs it."""

from muntin.spark.session.gateway import java_failure
from muntin.spark.session.java import cache_folder, find_java
from muntin.spark.session.session import default_shards, open_session, prepare_session, weigh_rows

__all__ = [
    "cache_folder",
    "default_shards",
    "find_java",
    "java_failure",
    "open_session",
    "prepare_session",
    "weigh_rows",
]
