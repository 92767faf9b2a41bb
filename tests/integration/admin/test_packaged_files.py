"""Stylesheets and scripts come out of the packages, with nothing collected first."""

import pytest
from django.test import Client


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("sluice/admin.css", "text/css; charset=utf-8"),
        ("sluice/engines.js", "text/javascript; charset=utf-8"),
        ("unfold/css/styles.css", "text/css; charset=utf-8"),
        ("admin/js/core.js", "text/javascript; charset=utf-8"),
        ("drf_spectacular_sidecar/swagger-ui-dist/swagger-ui.css", "text/css; charset=utf-8"),
    ],
)
def test_a_file_is_sent(path: str, content_type: str, client: Client) -> None:
    answer = client.get(f"/static/{path}")

    assert answer.status_code == 200
    assert answer["Content-Type"] == content_type
    assert answer.content


def test_a_file_that_the_browser_has_is_not_sent_again(client: Client) -> None:
    etag = client.get("/static/sluice/admin.css")["ETag"]

    answer = client.get("/static/sluice/admin.css", headers={"if-none-match": etag})

    assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", etag)


@pytest.mark.parametrize(
    "path", ["none.css", "sluice", "../settings.py", "%2e%2e/settings.py", "/etc/passwd", "sluice/../../settings.py"]
)
def test_nothing_else_is_sent(path: str, client: Client) -> None:
    assert client.get(f"/static/{path}").status_code in (400, 404)


def test_nothing_is_written(client: Client) -> None:
    assert client.post("/static/sluice/admin.css").status_code == 405
