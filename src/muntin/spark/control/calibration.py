"""The constants of the cost model that `muntin calibrate` keeps with a checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from muntin.plan.cost import Constants
from muntin.spark.checkpoint import FOLDER, FileKind, read_record, write_record


def constants_file(checkpoint: Path) -> Path:
    return checkpoint / FOLDER / "constants.json"


def constants_json(constants: Constants) -> str:
    """The constants as people read them."""
    return json.dumps(asdict(constants), indent=2) + "\n"


def keep_constants(checkpoint: Path, constants: Constants) -> Path:
    """Keep the constants with a job; the file that has them."""
    path = constants_file(checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_record(path, FileKind.CONSTANTS, constants)
    return path


def load_constants(checkpoint: Path) -> Constants | None:
    """The constants kept with a job, None where it was never calibrated."""
    path = constants_file(checkpoint)
    return read_record(path, FileKind.CONSTANTS, Constants) if path.exists() else None
