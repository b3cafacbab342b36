"""The documentation tells the truth: its paths exist, its example is worked right, its commands and programs run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.cli.bench import BENCHES
from muntin.cli.main import COMMANDS, parser
from muntin.model import Window
from muntin.oracle import answer, columns
from muntin.sql import parse_job

ROOT = Path(__file__).parents[1]
WRITTEN = {
    str(p.relative_to(ROOT))
    for p in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/README.md"))
}
PAGES = sorted(WRITTEN - {"CHANGELOG.md"})
"""The pages that speak of what is; the changelog speaks of what was."""
PATH = re.compile(r"(?:src|tests|docs|examples|\.ci)/[\w./-]*|[\w-]+\.(?:md|toml|lock|sql)")
EXAMPLE_FOLDERS = ("data", "out", "ckpt", "warm-out", "warm-ckpt")
"""What the README's commands make, as seen from the folder in which they run."""


def read(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), re.DOTALL | re.MULTILINE)


def tables(name: str) -> list[list[list[str]]]:
    """The Markdown tables of a page: rows of cells, header first."""
    found = re.findall(r"(?:^\|.*\|\n)+", read(name), re.MULTILINE)
    rows = [[[c.strip() for c in line.strip("|").split("|")] for line in t.splitlines()] for t in found]
    return [[table[0], *table[2:]] for table in rows]


# -- paths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_path_named_in_the_documentation_exists(page):
    code = " ".join(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", read(page), flags=re.DOTALL | re.MULTILINE)))
    words = [w.rstrip(".,") for w in code.split() if w.split("/")[0] not in EXAMPLE_FOLDERS]
    named = {m[0] for w in words if (m := PATH.fullmatch(w))}
    assert named or page not in ("README.md", "ARCHITECTURE.md", "docs/papers.md"), "this test has lost its way"
    assert sorted(p for p in named if not (ROOT / p).exists()) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_the_documentation_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", read(page))
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_the_way_of_a_row_is_a_walk_through_at_most_twelve_files():
    (walk,) = (table for table in tables("ARCHITECTURE.md") if table[0] == ["step", "what happens", "file"])
    files = [link for row in walk[1:] for link in re.findall(r"\]\(([^)]+)\)", row[2])]
    assert all(re.search(r"\]\(src/", row[2]) for row in walk[1:]), "each step has its file"
    assert 9 <= len(files) <= 12 and [link for link in files if not (ROOT / link).is_file()] == []


def test_what_to_touch_is_named_by_its_path():
    (touched,) = (table for table in tables("ARCHITECTURE.md") if table[0] == ["to add", "touch"])
    assert [what for what, where in touched[1:] if "`src/muntin/" not in where] == []


@pytest.mark.parametrize("page", PAGES)
def test_prose_keeps_to_a_hundred_characters(page):
    prose = re.sub(r"^```.*?^```", "", read(page), flags=re.DOTALL | re.MULTILINE)
    assert [line for line in prose.splitlines() if len(line) > 100 and not line.startswith("|")] == []


HOW = ("product", "study", "differs: ", "not built: ")


def test_each_row_of_the_papers_table_has_a_known_paper_and_says_how_it_is_built_or_why_not():
    papers, sections = tables("docs/papers.md")
    keys = {row[0] for row in papers[1:]}
    assert len(keys) == 5
    assert keys == {row[0] for row in sections[1:]}
    for paper, where, _, how, module, test in sections[1:]:
        built = not how.startswith("not built")
        assert how.startswith(HOW), (paper, where)
        assert module.startswith(("`src/muntin/", "`examples/")) if built else module == "not built", (paper, where)
        assert test.startswith("`tests/") if built else test == "not built", (paper, where)


PRINTED = {
    "hammad2003": {"figure": 9, "table": 1, "eq.": 2},
    "wang2006": {"figure": 19, "table": 4, "eq.": 4, "definition": 3, "lemma": 2, "theorem": 4},
    "kostowski": {"figure": 8, "eq.": 2},
    "hammad2005": {"figure": 10, "eq.": 8, "example": 2},
    "ding2004": {"figure": 12, "table": 1, "eq.": 1},
}
"""How many of each the papers number; theorems 3.1 and 4.1 of ding2004 are numbered by section."""


def numbered(where: str) -> set[tuple[str, str]]:
    """What a cell names: `4.3, eq. 1-2, figures 2(a) and 11` has equations 1 and 2 and figures 2 and 11."""
    found = set()
    for part in where.split(";"):
        kind = None
        for word, first, last in re.findall(r"([a-z]{2,}\.?)|([\d.]*\d)(?:-(\d+))?", part):
            if word and word != "and":
                kind = word if word == "eq." else word.removesuffix("s")
            elif first and kind is not None:
                numbers = [first] if not last else map(str, range(int(first), int(last) + 1))
                found |= {(kind, number) for number in numbers}
    return found


@pytest.mark.parametrize("paper", PRINTED)
def test_every_figure_table_equation_and_theorem_of_a_paper_has_a_row(paper):
    _, sections = tables("docs/papers.md")
    named = set.union(*(numbered(where) for key, where, *_ in sections[1:] if key == paper))
    wanted = {(kind, str(n)) for kind, most in PRINTED[paper].items() for n in range(1, most + 1)}
    wanted |= {("theorem", "3.1"), ("theorem", "4.1")} if paper == "ding2004" else set()
    assert sorted(wanted - named) == []


def test_nothing_in_the_project_names_a_place_outside_it():
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    outside = re.compile(r"\.\./\w|/(?:work|tmp|home|root)/\w")
    texts = [ROOT / f for f in tracked.stdout.split() if Path(f).suffix in (".md", ".sql", ".toml", ".lock", "")]
    assert [p for p in texts if p.name != "LICENSE" and outside.search(p.read_text())] == []


# -- the worked example ---------------------------------------------------------------------------------------------


def clock(text: str) -> int:
    hours, minutes, seconds = map(int, text.split(":"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000


def test_the_worked_example_of_the_semantics_is_what_the_oracle_says():
    page = read("docs/semantics.md")
    rows = {n: {"name": n, "ts": clock(t), "k": 1} for n, t in re.findall(r"`([ab]\d)` at ([\d:]+)", page)}
    rows["a1"]["Value"], rows["a2"]["Value"] = map(int, re.findall(r"with Value (\d+)[,;]", page)[:2])
    lefts, rights = ([r for n, r in rows.items() if n[0] == side] for side in "ab")
    queries, pairs = (t for t in tables("docs/semantics.md") if t[0][0] in ("query", "pair"))
    for name, left, right, selection in queries[1:]:
        window = Window(*(int(w.split()[0]) * 1_000_000 for w in (left, right)))
        keep = (lambda r: r["Value"] > 30) if selection == "A.Value > 30" else None
        got = answer(window, lefts, rights, (columns("k"), columns("k")), (keep, None))
        column = pairs[0].index(name)
        said = {(*p[0].split(", "), clock(p[-1])) for p in pairs[1:] if p[column] == "yes"}
        assert said
        assert {(p.left["name"], p.right["name"], p.ts) for p in got} == said
    assert len(pairs) - 1 == len(lefts) * len(rights), "every pair is discussed"


def test_the_alternatives_that_are_shown_are_those_of_a_golden_text():
    (shown,) = re.findall(r"^strategy .*?(?=^```)", read("docs/tuning.md"), re.DOTALL | re.MULTILINE)
    assert shown in read("tests/plan/golden/three_windows_with_selections.txt")


# -- commands and programs --------------------------------------------------------------------------------------------


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "bash") for line in block.splitlines()]


def test_the_guide_is_a_job_that_can_be_read():
    *blocks_of_a_job, changes = blocks("docs/guide.md", "sql")
    queries = parse_job("\n".join(blocks_of_a_job)).queries
    joins = {"before_and_after", "an_hour_later", "with_or_without", "answered", "missing", "humidity_then", "rises"}
    joins |= {"clicks_while_open", "stuffy", "pairs", "again"}
    others = {"warm", "damp_after_heat", "locations", "hot", "hottest", "bids_in_12h", "bids_or_none"}
    others |= {"north"}
    assert others | joins == set(queries)
    changed = parse_job("\n".join([*blocks_of_a_job, changes])).queries
    assert set(queries) - set(changed) == {"hot"}


def shown_commands(page: str) -> list[list[str]]:
    """Every command of Muntin's that a page shows, in its text, its blocks and its comments; one in quotes goes on
    over several lines, as one does whose lines end in a backslash."""
    text = re.sub(r"\\\n *", "", read(page))
    found = re.findall(r"`muntin ([^`\n]+)`|^(?:\$ |-- +)?muntin ([a-z][^\n\"]*(?:\"[^\"]*\")?)", text, re.MULTILINE)
    lines = [inline or line for inline, line in found]
    return [shlex.split(line) for line in lines if line.split()[0] in COMMANDS]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_is_shown_is_one_that_muntin_takes(page):
    shown = shown_commands(page)
    assert shown or page not in (
        "README.md",
        "docs/operations.md",
        "docs/performance.md",
        "examples/auctions/README.md",
    )
    for command in shown:
        if len(command) > 1:  # the others are the names of commands
            parsed = parser().parse_args(command)
            assert set(getattr(parsed, "name", [])) <= set(BENCHES) if command[0] == "bench" else True, command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_in_a_help_text_is_one_that_muntin_takes(name):
    shown = re.findall(r"\bmuntin ([a-z][^>\n]*)", COMMANDS[name].EXAMPLE)
    assert shown
    for line in shown:
        parser().parse_args(shlex.split(re.split(r"\s{2,}|\)$", line)[0]))


def test_every_make_target_in_the_readme_exists():
    wanted = {c.split()[1] for c in commands("README.md") if c.startswith("make ")}
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    assert wanted
    assert wanted <= targets


def test_the_lock_names_no_place_and_pins_every_dependency():
    lines = [line for line in read("requirements.lock").splitlines() if not line.startswith("#")]
    pins = [line.removesuffix(" \\") for line in lines if not line.startswith(" ")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    pinned = {pin.split("==")[0].lower().replace("_", "-") for pin in pins}
    wanted = re.findall(r'^    "([\w-]+)[><=]', read("pyproject.toml"), re.MULTILINE)
    assert {w.lower() for w in wanted} <= pinned


def test_every_file_that_is_installed_has_its_hash_in_the_lock():
    """`make setup` installs with --require-hashes; `python tests/lock.py` writes them after a change of versions."""
    assert "--require-hashes --requirement requirements.lock" in read("Makefile")
    whole = re.sub(r" \\\n\s+", " ", read("requirements.lock"))
    packages = [line.split() for line in whole.splitlines() if not line.startswith("#")]
    assert [name for name, *files in packages if not files] == [], "run python tests/lock.py"
    wrong = [file for _, *files in packages for file in files if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", file)]
    assert wrong == []


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{arguments}\n{done.stderr}"
    return done


@pytest.mark.spark
def test_the_program_of_the_python_page_runs(tmp_path):
    run([sys.executable, "-m", "muntin.cli.main", "generate", "sensors", "data", "--duration", "60"], tmp_path)
    (program,) = blocks("docs/python.md", "python")
    run([sys.executable, "-c", program], tmp_path)
    assert list((tmp_path / "warm-out" / "warm").rglob("*.parquet"))
    shutil.rmtree(tmp_path, ignore_errors=True)
