"""Files on this machine without a process for each of them.

For every file that Hadoop makes on a local disk, and for the file of sums beside it, it runs the program `chmod`: Java
had no call for that when Hadoop was young. A micro-batch makes eight such pairs (offsets, sources, state, commit), and
sixteen processes, each forked off a large one, were a tenth of its work. The class below asks Java instead. Janino,
which Spark brings along for the code that it generates, compiles it once into an archive of its own, which the driver
has on its class path. An archive and not a folder: with a folder there, Java shares no classes between processes.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from muntin.spark.session.class_archive import CLASS_PATH
from muntin.spark.session.gateway import start_java
from muntin.spark.session.java import cache_folder, place_whole

CLASS = "muntin.LocalFiles"
FILES = "spark.hadoop.fs.file.impl"
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

    archive = cache_folder() / f"classes-{crc32(SOURCE.encode()):08x}.jar"
    if SparkContext._gateway is None and not archive.exists():
        place_whole(archive, compiled(SOURCE))
    path = os.pathsep.join(filter(None, (settings.get(CLASS_PATH), str(archive))))
    begun = {**settings, CLASS_PATH: path}
    start_java(begun)
    return {**begun, FILES: CLASS} if _is_known(SparkContext._jvm) else dict(settings)


def _is_known(java: Any) -> bool:
    try:
        java.java.lang.Class.forName(CLASS)
    except Exception:
        return False
    return True


def compiled(source: str) -> bytes:
    """The archive of what a source declares, from a Java of its own: what is not there when Java starts is none of its
    class path."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]
    from pyspark.find_spark_home import _find_spark_home

    jars, java = Path(_find_spark_home()) / "jars", Path(os.environ["JAVA_HOME"], "bin", "java")
    place = {"jarpath": str(next(jars.glob("py4j*.jar"))), "classpath": f"{jars}/*", "java_path": str(java)}
    port, secret, process = launch_gateway(**place, die_on_exit=True, enable_auth=True, return_proc=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(source)
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name, code in sorted(dict(compiler.getBytecodes()).items()):
                archive.writestr(f"{name.replace('.', '/')}.class", bytes(code))
        return made.getvalue()
    finally:
        gateway.close()
        process.kill()
        process.wait()
