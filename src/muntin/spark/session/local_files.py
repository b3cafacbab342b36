"""Files on this machine without a process for each of them.

For every file that Hadoop makes on a local disk, and for the file of sums beside it, it runs the program `chmod`: Java
had no call for that when Hadoop was young. A micro-batch makes eight such pairs (offsets, sources, state, commit), and
sixteen processes, each forked off a large one, were a tenth of its work. The class below asks Java instead. Janino,
which Spark brings along for the code that it generates, compiles it once; the driver has its folder on the class path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from muntin.spark.session.gateway import start_java
from muntin.spark.session.java import cache_folder, place_whole

CLASS, PATH = "muntin.LocalFiles", "muntin/LocalFiles.class"
CLASS_PATH, FILES = "spark.driver.extraClassPath", "spark.hadoop.fs.file.impl"
SOURCE = """
package muntin;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            String bits = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
                + permission.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(bits));
        }
    }
}
"""


def without_processes(settings: Mapping[str, str]) -> dict[str, str]:
    """Start Java for these settings of Spark's, unless it runs; the settings with which Spark then takes the class.

    They are the same where Java has been started by somebody else: then Spark makes its files as it always has.
    """
    from pyspark import SparkContext

    folder = cache_folder() / f"classes-{crc32(SOURCE.encode()):08x}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = os.pathsep.join(filter(None, (settings.get(CLASS_PATH), str(folder))))
    begun = {**settings, CLASS_PATH: path}
    start_java(begun)
    java: Any = SparkContext._jvm
    if not (folder / PATH).exists():
        _compile(java, folder)
    return {**begun, FILES: CLASS} if _is_known(java) else dict(settings)


def _is_known(java: Any) -> bool:
    try:
        java.java.lang.Class.forName(CLASS)
    except Exception:
        return False
    return True


def _compile(java: Any, folder: Path) -> None:
    """The main class is written last: where it is, all are."""
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE)
    for name, code in sorted(compiler.getBytecodes().items(), reverse=True):
        place_whole(folder.joinpath(*name.split(".")).with_suffix(".class"), bytes(code))
