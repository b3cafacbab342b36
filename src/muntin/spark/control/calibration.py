"""The constants of the cost model that `muntin calibrate` keeps with a checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict

from muntin.plan.cost import Constants
from muntin.spark.checkpoint import FOLDER, FileKind, read_record, write_record
from muntin.spark.store import Location, store_of


def constants_file(checkpoint: Location) -> Location:
    return checkpoint / FOLDER / "constants.json"


def constants_json(constants: Constants) -> str:
    """The constants as people read them."""
    return json.dumps(asdict(constants), indent=2) + "\n"


def keep_constants(checkpoint: Location, constants: Constants) -> Location:
    """Keep the constants with a job; the file that has them."""
    path = constants_file(checkpoint)
    write_record(path, FileKind.CONSTANTS, constants)
    return path


def load_constants(checkpoint: Location) -> Constants | None:
    """The constants kept with a job, None where it was never calibrated."""
    path = constants_file(checkpoint)
    return read_record(path, FileKind.CONSTANTS, Constants) if store_of(path).exists(path) else None
