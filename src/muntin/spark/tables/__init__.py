"""Dimension tables: read whole by the driver, kept as numbered versions, handed out to the tasks that look into them.

`reading` reads a table and says whether it may have changed. `VersionLog` keeps what was read under the checkpoint,
each version with the micro-batch that was the first to go by it. `TableDesk` hands versions out. `TableKeeper` decides
which version a micro-batch goes by.
"""

from muntin.spark.tables.keeper import TableKeeper, TableStatus, open_tables
from muntin.spark.tables.reading import check_table
from muntin.spark.tables.versions import FOLDER, VersionLog

__all__ = ["FOLDER", "TableKeeper", "TableStatus", "VersionLog", "check_table", "open_tables"]
