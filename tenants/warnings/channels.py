"""The ways by which a warning is told."""

import contextlib
import hashlib
import hmac
import smtplib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import httpx2
import orjson
from django.core.mail import EmailMessage, get_connection

from domain.config import Config
from tenants.models import BudgetWarning
from tenants.warnings import message

TIMEOUT_S = 5.0
SIGNATURE = "x-sluice-signature"
_SMTP = "django.core.mail.backends.smtp.EmailBackend"


class NotTold(Exception):
    """Nobody heard; the message says why, without addresses or secrets."""


class Channel(NamedTuple):
    """One way: ``tell`` raises :class:`NotTold`."""

    name: str
    tell: Callable[[], None]


def channels_of(warning: BudgetWarning, config: Config) -> Iterator[Channel]:
    """All ways for this warning that somebody has set up. Their ``tell`` may run in any thread."""
    tenant, body = warning.tenant, orjson.dumps(message.payload(warning, config.currency))
    letter = message.mail(warning, config.currency)
    secret = config.alert_webhook_secret
    if tenant.alert_email:
        yield Channel("mail", partial(_send, letter, (tenant.alert_email,), config))
    if tenant.alert_webhook:
        own = tenant_secret(secret, tenant.slug) if secret else ""
        yield Channel("webhook", partial(_post, tenant.alert_webhook, body, own))
    if config.alert_mail_to:
        yield Channel("operators_mail", partial(_send, letter, config.alert_mail_to, config))
    if config.alert_webhook:
        yield Channel("operators_webhook", partial(_post, config.alert_webhook, body, secret))


def tenant_secret(secret: str, slug: str) -> str:
    """The secret that signs what one tenant is told: nobody else's can be made from it."""
    return hmac.new(secret.encode(), slug.encode(), hashlib.sha256).hexdigest()


def signature(secret: str, at: int, body: bytes) -> str:
    """``t=<seconds of the epoch>,v1=<HMAC-SHA256 of "<seconds>.<body>" in hex>``; the time foils later repetition."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def _post(url: str, body: bytes, secret: str) -> None:
    headers: Mapping[str, str] = {
        "content-type": "application/json",
        "user-agent": "sluice",
        **({SIGNATURE: signature(secret, int(time.time()), body)} if secret else {}),
    }
    try:
        # The answer's body is not read, and a redirect is not followed: the address is the one that was set.
        with httpx2.stream("POST", url, content=body, headers=headers, timeout=TIMEOUT_S) as answer:
            status = answer.status_code
    except httpx2.TimeoutException:
        raise NotTold(f"no answer within {TIMEOUT_S:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise NotTold(f"cannot be reached ({type(error).__name__})") from None  # its text may hold the address
    if not 200 <= status < 300:
        raise NotTold(f"answered {status}")


def _send(letter: message.Mail, receivers: tuple[str, ...], config: Config) -> None:
    if not config.smtp_url:
        raise NotTold("no mail server is set: SLUICE_SMTP_URL")
    server = get_connection(_SMTP)  # configured from SLUICE_SMTP_URL by the settings
    try:
        EmailMessage(*letter, config.alert_mail_from, receivers, connection=server).send()
    except smtplib.SMTPResponseException as error:
        raise NotTold(f"the mail server answered {error.smtp_code}") from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise NotTold(f"the mail server cannot be used ({type(error).__name__})") from None
    finally:
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.close()  # after a login that failed nobody else does
