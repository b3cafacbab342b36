"""What users have set of Spark's settings themselves: that stays, wherever Muntin can do with it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_LINE = re.compile(r"\s*([^\s#=:]+)\s*[\s=:]\s*(.*?)\s*")


def default_settings() -> dict[str, str]:
    """The settings of `spark-defaults.conf`, which those of a session would override."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found = [_LINE.fullmatch(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return {line[1]: line[2] for line in found if line is not None}
