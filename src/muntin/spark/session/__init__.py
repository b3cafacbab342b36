"""A Spark session fit for Muntin, and the Java that runs it.

`session` opens a session with the settings that Muntin needs, or sets them on the user's own. `java` finds a Java that
Spark runs on. `gateway` starts it apart from the terminal's signals and notices its end. `class_archive` lets it take
Spark's classes as an earlier one had them. `local_files` spares Spark a process for every file that it makes on a
local disk. `pythons` says which Python runs on executors, `user_settings` finds what users have set, `file_systems`
where Spark can write.
"""

from muntin.spark.session.gateway import AFTER_ERROR_S, java_failure, java_process, stop_session
from muntin.spark.session.java import cache_folder, find_java, serving_java
from muntin.spark.session.session import (
    begin_java,
    default_shards,
    is_alone,
    is_one_process,
    open_session,
    prepare_session,
    weigh_frames,
    weigh_rows,
)

__all__ = [
    "AFTER_ERROR_S",
    "begin_java",
    "cache_folder",
    "default_shards",
    "find_java",
    "is_alone",
    "is_one_process",
    "java_failure",
    "java_process",
    "open_session",
    "prepare_session",
    "serving_java",
    "stop_session",
    "weigh_frames",
    "weigh_rows",
]
