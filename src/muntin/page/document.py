"""The picture of a plan as one document: script, style and data in one file, nothing fetched from elsewhere."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"
SCRIPTS = ("format.js", "dom.js", "model.js", "plan.js", "standalone.js")
"""In the order in which they need each other."""
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
FRAME_HEIGHT = 520
DOCUMENT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div id="plan"></div>
{text}
</main>
<script type="application/json" id="given">{given}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def plan_document(plans: Sequence[Any], title: str, text: str = "", status: dict[str, Any] | None = None) -> str:
    """A whole document: the picture of plans as EXPLAIN has them in JSON, and what it says in words below it."""
    said = f"<details open><summary>in words</summary><pre>{html.escape(text)}</pre></details>" if text else ""
    return DOCUMENT.format(
        policy=POLICY,
        title=html.escape(title),
        style=(STATIC / "style.css").read_text(encoding="utf-8"),
        text=said,
        given=_inside_script(json.dumps({"plans": list(plans), "status": status})),
        script="\n".join(map(_script, SCRIPTS)),
    )


def _script(name: str) -> str:
    """A module without its imports: what it needs stands above it."""
    text = (STATIC / name).read_text(encoding="utf-8")
    return re.sub(r"^import .*\n", "", re.sub(r"^export ", "", text, flags=re.MULTILINE), flags=re.MULTILINE)


def _inside_script(text: str) -> str:
    """JSON that cannot end the element it stands in, whatever a query or a column is called."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def framed(document: str) -> str:
    """A document inside a notebook: its style and script stay its own, and it can reach nothing."""
    escaped = html.escape(document, quote=True)
    return (
        f'<iframe sandbox="allow-scripts" style="width:100%;height:{FRAME_HEIGHT}px;border:0" '
        f'title="the shared plan" srcdoc="{escaped}"></iframe>'
    )


class Explanation(str):
    """What EXPLAIN says. It is a text; a notebook shows it with the picture."""

    plan: dict[str, Any]

    @classmethod
    def of(cls, text: str, plan: dict[str, Any]) -> Explanation:
        """The text of EXPLAIN, and its JSON."""
        made = cls(text)
        made.plan = plan
        return made

    def _repr_html_(self) -> str:
        return framed(plan_document([self.plan], "The shared plan", str(self)))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
