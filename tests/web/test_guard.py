"""Nobody else's page can change a job or read what it does."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from muntin.web.app import make_app
from muntin.web.guard import LONGEST_BODY, TOKEN, Access
from web.conftest import HOST

SQL = {"sql": "DROP QUERY hot"}
CHANGES = [
    ("POST", "/api/queries"),
    ("POST", "/api/preview"),
    ("DELETE", "/api/queries/hot"),
    ("POST", "/api/requests/1"),
]


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost", "[::1]:8420", "LOCALHOST:1"])
def test_the_names_of_this_machine_are_let_in(reader, host):
    assert reader.get("/api/about", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "", "10.0.0.7"])
def test_a_name_that_only_points_here_is_refused(reader, host):
    for path in ("/", "/api/status", "/metrics", "/static/main.js"):
        assert reader.get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("method, path", CHANGES)
def test_changes_need_the_token(reader, method, path):
    for token in ({}, {TOKEN: ""}, {TOKEN: "wrong"}, {TOKEN: "ünd"}):
        headers = {name: value.encode() for name, value in token.items()}
        assert reader.request(method, path, json=SQL, headers=headers).status_code == 401


@pytest.mark.parametrize("method, path", CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=lambda found: "=".join(*found.items()),
)
def test_a_page_of_another_site_changes_nothing_even_with_the_token(client, job, method, path, headers):
    before = list((job.checkpoint / "muntin").glob("requests/*"))
    assert client.request(method, path, json=SQL, headers=headers).status_code == 403
    assert list((job.checkpoint / "muntin").glob("requests/*")) == before


def test_a_page_of_another_site_reads_nothing(reader):
    assert reader.get("/api/status", headers={"Origin": "http://evil.example"}).status_code == 403
    assert "access-control-allow-origin" not in reader.get("/api/status").headers


def test_a_form_cannot_send_a_change(client):
    sent = client.post("/api/queries", content="sql=1", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert sent.status_code == 415


def test_a_long_body_is_refused_before_it_is_read(client):
    assert client.post("/api/preview", json={"sql": "x" * LONGEST_BODY}).status_code == 413
    chunked = client.post("/api/preview", content=iter([b"{}"]), headers={"Content-Type": "application/json"})
    assert chunked.status_code == 413


def test_a_page_that_is_read_only_shows_and_changes_nothing(live):
    reading = TestClient(make_app(live, Access(token=None)), base_url=HOST, headers={TOKEN: ""})
    assert reading.get("/api/about").json()["read_only"] is True
    for method, path in CHANGES:
        answer = reading.request(method, path, json=SQL)
        assert answer.status_code == 403 and "read-only" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/", "/api/status", "/metrics", "/nowhere", "/static/main.js"])
def test_every_answer_tells_the_browser_to_load_nothing_from_elsewhere(reader, path):
    headers = reader.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_a_server_that_is_open_to_the_network_takes_addresses_and_no_foreign_names():
    access = Access(host="0.0.0.0")
    assert access.refusal("GET", Headers({"host": "192.168.1.5:8420"})) is None
    assert access.refusal("GET", Headers({"host": "evil.example:8420"}))[0] == 421
    assert not access.is_loopback


def test_each_server_has_a_token_of_its_own():
    assert Access().token != Access().token and len(Access().token or "") >= 32
