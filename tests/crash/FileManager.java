package muntin.crash;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's half of the crash points: its own durable actions are renames of files, and Java dies before or after one.
 * `src/muntin/spark/store/crash_points.py` has the registry, and reads the same variable.
 */
public class FileManager extends FileSystemBasedCheckpointFileManager {
    private static final AtomicInteger reached = new AtomicInteger();

    public FileManager(Path path, Configuration conf) {
        super(path, conf);
    }

    public void renameTempFile(Path source, Path target, boolean overwrites) {
        String action = actionOf(target);
        reach("before", action);
        super.renameTempFile(source, target, overwrites);
        reach("after", action);
    }

    private static String actionOf(Path file) {
        String name = file.getName();
        String folder = file.getParent() == null ? "" : file.getParent().getName();
        if (name.equals("metadata")) {
            return "metadata";
        }
        if (folder.equals("offsets")) {
            return "offset";
        }
        if (folder.equals("commits")) {
            return "commit";
        }
        if (name.endsWith(".changelog") || name.endsWith(".zip")) {
            return "state";
        }
        return file.toString().contains("/sources/") && name.matches("[0-9]+(\\.compact)?") ? "source log" : "other";
    }

    private static void reach(String when, String action) {
        String wanted = System.getenv("MUNTIN_CRASH_AT");
        if (wanted == null) {
            return;
        }
        int colon = wanted.lastIndexOf(':');
        String point = colon < 0 ? wanted : wanted.substring(0, colon);
        int times = colon < 0 ? 1 : Integer.parseInt(wanted.substring(colon + 1));
        if (point.equals(when + " " + action) && reached.incrementAndGet() == times) {
            Runtime.getRuntime().halt(137);
        }
    }
}
