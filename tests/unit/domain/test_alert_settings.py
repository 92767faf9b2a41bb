"""Settings of those who are told of budgets."""

import pytest

from domain.config import Config, ConfigError, parse_config
from gateway_admin.mail_server import MailServer, mail_server


def parse(**environ: str) -> Config:
    return parse_config({f"SLUICE_{name}": text for name, text in environ.items()}, lambda name: name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALERT_WEBHOOK", "ftp://example.org/hook"),
        ("ALERT_WEBHOOK", "https:///hook"),
        ("ALERT_WEBHOOK", "http://[broken/hook"),
        ("SMTP_URL", "mail.example.org:25"),
        ("SMTP_URL", "http://user:s3cret@mail.example.org"),
        ("SMTP_URL", "smtp://user:s3cret@mail.example.org:99999"),
    ],
)
def test_a_wrong_address_is_refused_without_repeating_it(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"SLUICE_{name}") as refused:
        parse(**{name: value})
    assert value not in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_mail_needs_a_server() -> None:
    with pytest.raises(ConfigError, match="SLUICE_SMTP_URL"):
        parse(ALERT_MAIL_TO="a@example.org")
    assert parse(ALERT_MAIL_TO="a@example.org, b@example.org", SMTP_URL="smtp://localhost").alert_mail_to == (
        "a@example.org",
        "b@example.org",
    )


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("", MailServer("smtp", "localhost", 25, "", "")),
        ("smtp://mail.example.org", MailServer("smtp", "mail.example.org", 25, "", "")),
        ("smtps://u%40x:p%2Fw@mail.example.org", MailServer("smtps", "mail.example.org", 465, "u@x", "p/w")),
        ("smtp+starttls://u:p@[2001:db8::1]:2525", MailServer("smtp+starttls", "2001:db8::1", 2525, "u", "p")),
    ],
)
def test_a_mail_server_is_read_from_its_url(url: str, server: MailServer) -> None:
    assert parse(SMTP_URL=url).smtp_url == url
    assert mail_server(url) == server
