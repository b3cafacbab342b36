"""The page in a real browser, while a job runs: Debian's chromium, driven by Playwright.

Where one of the two is not installed these tests are skipped, and say so; `make test-web` installs both.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from muntin.page import plan_document
from muntin.plan.explain import describe, to_json
from muntin.web.server import WebOptions, WebServer
from web.played import PlayedJob

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make test-web installs it")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make test-web installs it"),
]
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
NEW = "CREATE QUERY extra AS\nSELECT A.place, B.v AS damp FROM Heat A, Damp B\nWHERE A.place = B.place WINDOW 90 s"


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Watched:
    """A page, and whatever it complained of or asked of others."""

    def __init__(self, browser: sync_api.Browser, **options: object):
        self.page = browser.new_page(**options)
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.add(request.url.split("/")[2]))

    def faults(self) -> list[str]:
        """What axe finds wrong with the page for those who cannot see it well, or use no mouse."""
        self.page.wait_for_timeout(600)  # what moves has come to rest
        self.page.evaluate(AXE)
        judged = self.page.evaluate("rules => axe.run(document, rules)", RULES)
        assert len(judged["passes"]) > 10, "axe has looked at the page"
        found = judged["violations"]
        return [f"{v['id']}: {node['target']} {node.get('failureSummary', '')}" for v in found for node in v["nodes"]]


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedJob]:
    job = PlayedJob(tmp_path_factory.mktemp("job"))
    job.tick(3)
    job.play(0.4)
    yield job
    job.close()


def slices(page: sync_api.Page) -> list[str]:
    return page.eval_on_selector_all("#plan .state.side0 .slice", "found => found.map(s => s.dataset.key)")


def test_a_query_is_previewed_added_seen_and_dropped_while_the_job_runs(browser, playing):
    with WebServer(playing.checkpoint, WebOptions(port=0)) as server:
        watched = Watched(browser)
        page = watched.page
        page.goto(server.url)
        page.wait_for_selector("#plan .slice")
        assert "token" not in page.url and len(slices(page)) == 3

        page.fill("#sql", NEW.replace("A.place,", "A.nothing,"))
        page.click("text=preview")
        page.wait_for_selector("#sql-error pre")
        assert "nothing" in page.inner_text("#sql-error") and "^" in page.inner_text("#sql-error")
        marked = page.evaluate("() => { const t = document.getElementById('sql'); "
                               "return t.value.slice(t.selectionStart, t.selectionEnd); }")  # fmt: skip
        assert "nothing" in marked

        page.fill("#sql", NEW)
        page.click("text=preview")
        page.wait_for_selector(".preview .query.fresh")
        assert "The state of Heat is cut at 90 s." in page.inner_text("#editor")
        assert "extra" not in page.inner_text("#query-list") and len(slices(page)) == 3

        page.click("text=apply")
        page.wait_for_selector("#plan .query[data-queries=extra]")
        assert "slice 60000000 90000000" in slices(page)
        page.wait_for_selector("[data-query=extra]")
        assert page.inner_text("#editor").count("added extra: applies to results from") == 1

        page.click("[data-query=extra]")
        page.wait_for_selector(".detail pre")
        for _ in range(60):
            if page.query_selector(".detail td"):
                break
            page.wait_for_timeout(500)
            page.click("text=look again")
        assert page.query_selector(".detail td"), "its rows have come"
        page.click(".detail >> text=drop")
        page.wait_for_selector("text=drop it now")
        page.click("text=drop it now")
        page.wait_for_selector("#plan .query[data-queries=extra]", state="detached")
        assert len(slices(page)) == 3
        refused = [said for said in watched.complaints if "422" not in said]  # the browser logs the refusal above
        assert refused == [] and watched.asked == {server.url.split("/")[2]}
        page.close()


def test_the_page_says_that_the_job_is_over_and_comes_back_with_it(browser, playing):
    server = WebServer(playing.checkpoint, WebOptions(port=0)).start()
    watched = Watched(browser)
    page = watched.page
    page.goto(server.url)
    page.wait_for_selector("#headline:has-text('running')")
    playing.stop()
    page.wait_for_selector("#headline:has-text('has stopped')")
    port = int(server.url.split(":")[2].split("/")[0])
    server.close()
    page.wait_for_selector("#connection.lost")
    assert "comes back by itself" in page.inner_text("#connection")
    playing.restart()
    playing.play(0.4)
    with WebServer(playing.checkpoint, WebOptions(port=port)):
        page.wait_for_selector("#connection:not(.lost)")
        page.wait_for_selector("#headline:has-text('running')")
        page.close()


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 1280), ("light", 390)])
def test_everybody_can_read_the_page(browser, playing, scheme, width):
    with WebServer(playing.checkpoint, WebOptions(port=0)) as server:
        watched = Watched(browser, color_scheme=scheme, viewport={"width": width, "height": 900})
        page = watched.page
        page.goto(server.url)
        page.wait_for_selector("#plan .slice")
        page.wait_for_selector(".card b")
        page.click("[data-query=together]")
        page.wait_for_selector(".detail td")
        assert watched.faults() == []
        compared = page.inner_text(".card")
        plan = page.evaluate("() => fetch('/api/plan').then((found) => found.json())")["plans"][0]
        assert f"{round(plan['joins'][0]['predicted']['rows']):,} shared" in compared, "predicted beside predicted"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
        assert page.title() == "Muntin", "rows with markup in them are text"
        assert page.query_selector("#letters img, .detail img") is None and watched.complaints == []
        assert page.eval_on_selector_all(".chart", "found => found.every(c => c.querySelector('details'))")
        page.close()


def test_the_keyboard_reaches_each_part_of_the_picture_and_it_is_explained(browser, playing):
    with WebServer(playing.checkpoint, WebOptions(port=0, read_only=True)) as server:
        page = Watched(browser).page
        page.goto(server.url)
        page.wait_for_selector("#plan .slice")
        page.focus("#plan input[type=radio]:checked")
        told = []
        for _ in range(12):
            page.keyboard.press("Tab")
            told.append(page.inner_text("#plan .sentence"))
        assert any(re.match(r"Stream Heat: [\d.]+ rows per second", said) for said in told), told
        assert any(re.match(r"A slice of Heat: rows of age 0 to 5 s, \d+ rows", said) for said in told), told
        assert any(re.match(r"Query hot reads Heat of age 0 to 1 min", said) for said in told), told
        assert page.is_disabled("#sql")
        page.close()


def test_a_plan_is_one_document_that_needs_nothing_else(browser, playing, tmp_path):
    file = tmp_path / "plan.html"
    plan = to_json(describe(playing.spec))
    plan["joins"][0]["queries"][0]["name"] = "</script><script>document.title='owned'</script>"
    file.write_text(plan_document([plan], "A plan", "<b>in words</b>"))
    watched = Watched(browser)
    watched.page.goto(file.as_uri())
    watched.page.wait_for_selector(".slice")
    assert watched.page.title() == "A plan" and watched.complaints == [] and watched.asked == {""}
    assert watched.faults() == []
    watched.page.close()
