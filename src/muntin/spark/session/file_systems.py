"""Whether Spark can write where its half of a checkpoint is to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.model import UsageError
from muntin.spark.checkpoint import is_for_spark_to_find
from muntin.spark.store import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refuse_unknown_file_system(spark: SparkSession, checkpoint: Location) -> None:
    """Refuse a checkpoint whose half of Spark's lies where this Spark has no file system for; nothing is written."""
    uri = is_for_spark_to_find(checkpoint)
    if uri is None:
        return
    java: Any = spark.sparkContext._jvm
    scheme = uri.partition(":")[0]
    try:
        java.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, spark.sparkContext._jsc.hadoopConfiguration())
    except Exception as error:
        version = java.org.apache.hadoop.util.VersionInfo.getVersion()
        packages = f"start Spark with --packages org.apache.hadoop:hadoop-aws:{version}, " if scheme == "s3a" else ""
        raise UsageError(
            f"Spark has no file system for {scheme}://, so it cannot keep its half of the checkpoint in {uri}",
            hint=f"{packages}or name a folder that driver and executors share with --spark-checkpoint",
        ) from error
