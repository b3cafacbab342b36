"""The layer rule of ARCHITECTURE.md: nobody imports upwards, and each foreign library has one home."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "muntin"
HEIGHT = {
    "model": 0,
    "kernels": 1,
    "formats": 1,
    "plan": 2,
    "sql": 3,
    "core": 3,
    "generate": 4,
    "page": 4,
    "testing": 5,
    "spark": 6,
    "bench": 7,
    "studies": 7,
    "web": 7,
    "cli": 8,
}
MAY_ALSO = {"generate": {"model", "kernels"}, "oracle": {"model"}, "page": {"model"}}
"""Layers that may import less than everything below them."""
HOME = {
    "sqlglot": ["sql"],
    "numba": ["kernels"],
    "duckdb": ["kernels", "bench"],
    "pyspark": ["spark"],
    "obstore": ["spark"],
    "starlette": ["web"],
    "uvicorn": ["web"],
    "prometheus_client": ["web"],
    "deltalake": ["spark"],
    "pyiceberg": ["spark"],
    "fastavro": ["formats"],
    "google": ["formats"],
    "confluent_kafka": ["spark"],
    "nats": ["spark"],
}
MODULES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in MODULES}


def layer_of(path: Path) -> str:
    """The folder under the package, or the module's own name: `oracle` is a layer of one file."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def imports(path: Path) -> list[str]:
    """Full dotted names of everything imported, wherever in the file."""
    found: list[str] = []
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def in_all_modules(wrong_in: Callable[[Path], list[str]]) -> dict[str, list[str]]:
    """What is wrong in each module where something is."""
    return {str(path.relative_to(PACKAGE)): wrong for path in MODULES if (wrong := wrong_in(path))}


def allowed(layer: str) -> set[str]:
    below = {name for name, height in HEIGHT.items() if height < HEIGHT.get(layer, 0)}
    return MAY_ALSO.get(layer, below) | {layer}


def test_nobody_imports_upwards():
    def wrong_in(path: Path) -> list[str]:
        layer = layer_of(path)
        if layer == "__init__":
            return []  # the face of the package names `Job`, lazily
        assert layer in HEIGHT or layer == "oracle", f"{layer} is not a layer"
        own = [name.split(".") for name in imports(path) if name.split(".")[0] == "muntin"]
        return [".".join(name) for name in own if name[1] not in allowed(layer) | {"__version__"}]

    assert in_all_modules(wrong_in) == {}


def test_each_foreign_library_is_imported_in_one_layer_only():
    def wrong_in(path: Path) -> list[str]:
        return [n for n in imports(path) if (home := HOME.get(n.split(".")[0])) and layer_of(path) not in home]

    assert in_all_modules(wrong_in) == {}


def test_the_model_imports_nothing_but_the_standard_library():
    roots = {name.split(".")[0] for path in MODULES if layer_of(path) == "model" for name in imports(path)}
    known = {
        "__future__",
        "collections",
        "dataclasses",
        "datetime",
        "enum",
        "functools",
        "itertools",
        "re",
        "typing",
        "zlib",
    }
    assert roots <= known | {"muntin"}


ROOMS = {
    ".".join(p.parent.relative_to(PACKAGE.parent).parts): p
    for p in MODULES
    if p.name == "__init__.py" and len(p.parent.relative_to(PACKAGE).parts) == 2
}
"""The packages inside a layer, by their dotted names."""


@cache
def exported(room: str) -> set[str]:
    """The names that a room lists in `__all__`."""
    for node in TREES[ROOMS[room]].body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def room_of(name: str) -> str | None:
    room = ".".join(name.split(".")[:3])
    return room if room in ROOMS else None


def test_from_outside_a_room_only_what_it_exports_is_imported():
    def wrong_in(path: Path) -> list[str]:
        own = room_of(".".join(path.with_suffix("").relative_to(PACKAGE.parent).parts))
        foreign = [(n, room) for n in imports(path) if (room := room_of(n)) is not None and room != own]
        return [n for n, room in foreign if n.removeprefix(f"{room}.") not in exported(room)]

    assert in_all_modules(wrong_in) == {}


def test_a_room_says_what_it_is_for():
    assert [room for room, path in ROOMS.items() if not ast.get_docstring(TREES[path])] == []


# -- names and sizes --------------------------------------------------------------------------------------------------

LONGEST_FILE, LONGEST_FUNCTION = 400, 60
LONG = "# a long kernel:"
"""Says, above the decorators of a kernel that is longer than others, why it is one piece."""


def test_no_two_classes_have_one_name():
    homes: dict[str, list[str]] = {}
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_files_and_functions_fit_the_eye():
    def wrong_in(path: Path) -> list[str]:
        lines = path.read_text().splitlines()
        wrong = [f"{len(lines)} lines"] if len(lines) > LONGEST_FILE else []
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= LONGEST_FUNCTION:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if layer_of(path) != "kernels" or not lines[first - 2].startswith(LONG):
                    wrong.append(node.name)
        return wrong

    assert in_all_modules(wrong_in) == {}


def test_no_module_is_a_drawer_for_odds_and_ends():
    assert [p for p in MODULES if p.stem in ("utils", "util", "helpers", "helper", "common", "misc")] == []
