"""Where our durable files lie, and the verbs for them: on a file system, or in an object store.

`locate` turns what a user writes into a `Location`: a path, or a key of a bucket. `store_of` is its `Store`, which
reads, lists, puts and removes. Nothing here knows what the files mean. `crash_points` names the moments before and
after each durable action, for tests that let a process die there.
"""

from muntin.spark.store import crash_points
from muntin.spark.store.arrow import arrow_files
from muntin.spark.store.locate import is_uri, locate
from muntin.spark.store.location import Location, ObjectPath, for_spark, spark_half
from muntin.spark.store.objects import ObjectStore
from muntin.spark.store.posix import sync_file, sync_folder
from muntin.spark.store.private import private_folder
from muntin.spark.store.store import Store, store_of

__all__ = [
    "Location",
    "ObjectPath",
    "ObjectStore",
    "Store",
    "arrow_files",
    "crash_points",
    "for_spark",
    "is_uri",
    "locate",
    "private_folder",
    "spark_half",
    "store_of",
    "sync_file",
    "sync_folder",
]
