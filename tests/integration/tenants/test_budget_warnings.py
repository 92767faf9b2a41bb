"""Warnings before a monthly budget ends, told to a real mail server and a real web server."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connections
from pytest_django import Settings

from domain.config import Config
from tenants.models import Adjustment, BudgetWarning, Plan, Tenant, UsageRollup
from tenants.warnings import channels
from tenants.warnings.bounds import warn
from tenants.warnings.channels import SIGNATURE, tenant_secret
from tenants.warnings.telling import MOST_ATTEMPTS, due_after, tell_due
from tests.integration.tenants.alert_sinks import MailSink, WebSink, mail_sink, web_sink
from tests.stack import free_port

# The mail server of these tests takes a password on loopback, without TLS.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

MONTH = date(2030, 3, 1)
NOW = datetime(2030, 3, 20, 12, tzinfo=UTC)
NANO = 10**9


@pytest.fixture
def tenant(db: None) -> Tenant:
    plan = Plan.objects.create(
        name="gold",
        tokens_per_month_soft=800,
        tokens_per_month=1000,
        cost_per_month_soft=Decimal("7.50"),
        cost_per_month=Decimal(10),
    )
    return Tenant.objects.create(slug="acme", name="Acme & Sons", plan=plan)


@pytest.fixture
def web() -> Iterator[WebSink]:
    with web_sink() as sink:
        yield sink


@pytest.fixture
def post_office() -> Iterator[MailSink]:
    with mail_sink(free_port()) as sink:
        yield sink


@pytest.fixture
def config(settings: Settings) -> Config:
    """Nobody but the tenant is told, and there is no mail server."""
    return settings.SLUICE


@pytest.fixture
def mailing(post_office: MailSink, settings: Settings, config: Config) -> Config:
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", post_office.port
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "sluice", "let me in"
    return replace(config, smtp_url=f"smtp://sluice:let%20me%20in@127.0.0.1:{post_office.port}")


def use(tenant: Tenant, tokens: int = 0, nano: int = 0, day: int = 5, month: int = 3) -> None:
    UsageRollup.objects.create(
        period="d",
        starts_at=datetime(2030, month, day, tzinfo=UTC),
        tenant=tenant,
        key_id=1,
        model="m",
        qos_class="p1",
        requests=1,
        prompt_tokens=tokens - tokens // 3,
        completion_tokens=tokens // 3,
        cost_nano=nano,
    )


def made() -> list[tuple[str, str, int, int]]:
    return list(BudgetWarning.objects.order_by("kind", "-bound").values_list("kind", "bound", "spent", "limit"))


def look(tenant: Tenant, refused: tuple[str, ...] = ()) -> list[tuple[str, str, int, int]]:
    warn([tenant.pk], MONTH, NOW, {(tenant.pk, kind) for kind in refused})
    return made()


def a_warning(tenant: Tenant, bound: str = "soft", kind: str = "tokens", at: datetime = NOW) -> BudgetWarning:
    spent, limit = (9 * NANO, 7_500_000_000) if kind == "cost" else (1234, 800)
    return BudgetWarning.objects.create(
        tenant=tenant, month=MONTH, kind=kind, bound=bound, spent=spent, limit=limit, at=at
    )


# --- which bounds are reached ---------------------------------------------------------------------------------------


def test_below_its_bounds_nobody_is_warned(tenant: Tenant) -> None:
    use(tenant, tokens=799, nano=7_499_999_999)

    assert look(tenant) == []


def test_each_bound_is_warned_of_once_when_it_is_reached(tenant: Tenant) -> None:
    use(tenant, tokens=500)
    use(tenant, tokens=300, day=6)
    assert look(tenant) == [("tokens", "soft", 800, 800)]

    use(tenant, tokens=200, nano=10 * NANO, day=7)
    everything = [
        ("cost", "soft", 10 * NANO, 7_500_000_000),
        ("cost", "hard", 10 * NANO, 10 * NANO),
        ("tokens", "soft", 800, 800),
        ("tokens", "hard", 1000, 1000),
    ]
    assert look(tenant) == everything
    use(tenant, tokens=100, day=8)
    assert look(tenant) == everything


def test_other_months_and_other_tenants_do_not_count(tenant: Tenant) -> None:
    use(tenant, tokens=900, month=2, day=28)
    use(tenant, tokens=900, month=4, day=1)
    use(Tenant.objects.create(slug="bolt", name="Bolt", plan=tenant.plan), tokens=900)

    assert look(tenant) == []


def test_corrections_by_hand_count(tenant: Tenant) -> None:
    use(tenant, tokens=900, nano=7 * NANO)
    Adjustment.objects.create(tenant=tenant, month=MONTH, tokens=-200, cost_nano=NANO, reason="credit")

    assert look(tenant) == [("cost", "soft", 8 * NANO, 7_500_000_000)]


def test_a_tenant_that_has_only_a_correction_is_warned(tenant: Tenant) -> None:
    Adjustment.objects.create(tenant=tenant, month=MONTH, tokens=850, reason="brought along")

    assert look(tenant) == [("tokens", "soft", 850, 800)]


@pytest.mark.parametrize(("used", "warned"), [(949, False), (950, True)])
def test_a_budget_that_a_request_found_no_room_in_is_used_up_though_not_to_the_last_token(
    tenant: Tenant, used: int, warned: bool
) -> None:
    use(tenant, tokens=used)

    bounds = {bound for _, bound, _, _ in look(tenant, refused=("tokens",))}

    assert bounds == ({"soft", "hard"} if warned else {"soft"})


def test_a_plan_without_bounds_is_never_warned_of(tenant: Tenant) -> None:
    use(tenant, tokens=10**12, nano=10**15)
    tenant.plan = Plan.objects.create(name="free")
    tenant.save()

    assert look(tenant) == []


@pytest.mark.django_db(transaction=True)
def test_many_processes_that_look_at_once_make_one_warning(tenant: Tenant) -> None:
    use(tenant, tokens=900)

    def look_apart(_: int) -> None:
        try:
            warn([tenant.pk], MONTH, NOW)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(look_apart, range(12)))

    assert made() == [("tokens", "soft", 900, 800)]


# --- telling --------------------------------------------------------------------------------------------------------


def test_a_webhook_hears_what_happened_with_a_signature_that_holds(
    tenant: Tenant, web: WebSink, config: Config
) -> None:
    tenant.alert_webhook = f"{web.url}/tenant?token=1"
    tenant.save()
    warning = a_warning(tenant, kind="cost")

    tell_due(NOW, replace(config, alert_webhook_secret="s3cret", alert_webhook=f"{web.url}/operators"))

    by_path = {path: (headers, body) for path, headers, body in web.heard}
    assert set(by_path) == {"/tenant?token=1", "/operators"}
    for path, secret in (("/operators", "s3cret"), ("/tenant?token=1", tenant_secret("s3cret", "acme"))):
        headers, body = by_path[path]
        assert json.loads(body) == {
            "id": warning.pk,
            "event": "budget.warning",
            "tenant": "acme",
            "month": "2030-03",
            "budget": "cost",
            "bound": "soft",
            "spent": "9.00",
            "limit": "7.50",
            "currency": config.currency,
            "at": "2030-03-20T12:00:00+00:00",
        }
        stamp, given = (part.split("=")[1] for part in headers[SIGNATURE].split(","))
        assert given == hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    warning.refresh_from_db()
    assert (warning.told, warning.done) == ({"webhook": "", "operators_webhook": ""}, True)


def test_without_a_secret_nothing_is_signed(tenant: Tenant, web: WebSink, config: Config) -> None:
    a_warning(tenant, bound="hard")

    tell_due(NOW, replace(config, alert_webhook=web.url))

    _, headers, body = web.heard[0]
    assert SIGNATURE not in headers
    assert json.loads(body)["event"] == "budget.used_up"
    assert (json.loads(body)["spent"], json.loads(body)["limit"]) == (1234, 800)


def test_tenant_and_operators_get_mail_with_the_figures(tenant: Tenant, post_office: MailSink, mailing: Config) -> None:
    tenant.alert_email = "billing@acme.example"
    tenant.save()
    warning = a_warning(tenant)

    tell_due(NOW, replace(mailing, alert_mail_to=("a@op.example", "b@op.example"), alert_mail_from="sluice@op.example"))

    mails = {tuple(receivers): mail for receivers, mail in post_office.mails()}
    assert set(mails) == {("billing@acme.example",), ("a@op.example", "b@op.example")}
    for mail in mails.values():
        assert mail["from"] == "sluice@op.example"
        assert mail["subject"] == "Sluice: acme has reached the warning for its tokens of 2030-03"
        text = mail.get_content()
        assert "1,234 tokens" in text
        assert "800 tokens" in text
        assert "Acme & Sons" in text
    warning.refresh_from_db()
    assert (warning.told, warning.done) == ({"mail": "", "operators_mail": ""}, True)


def test_a_mail_server_that_refuses_the_password_is_noted_without_it(
    tenant: Tenant, mailing: Config, settings: Settings
) -> None:
    settings.EMAIL_HOST_PASSWORD = "wrong words"
    warning = a_warning(tenant)

    tell_due(NOW, replace(mailing, alert_mail_to=("a@op.example",)))

    warning.refresh_from_db()
    assert warning.told == {"operators_mail": "the mail server answered 535"}
    assert not warning.done


def test_mail_for_a_tenant_without_a_mail_server_says_what_to_set(tenant: Tenant, config: Config) -> None:
    tenant.alert_email = "billing@acme.example"
    tenant.save()
    warning = a_warning(tenant)

    tell_due(NOW, config)

    warning.refresh_from_db()
    assert "SLUICE_SMTP_URL" in warning.told["mail"]


def test_where_nobody_is_to_be_told_the_warning_is_done(tenant: Tenant, config: Config) -> None:
    warning = a_warning(tenant)

    assert tell_due(NOW, config) == []

    warning.refresh_from_db()
    assert warning.done


def test_what_failed_is_told_again_later_and_nothing_else_is(tenant: Tenant, web: WebSink, config: Config) -> None:
    web.statuses = [500, 204]
    tenant.alert_webhook = "http://127.0.0.1:1/closed"
    tenant.save()
    warning = a_warning(tenant)
    with_web = replace(config, alert_webhook=web.url)

    tell_due(NOW, with_web)
    tell_due(NOW + timedelta(seconds=59), with_web)
    warning.refresh_from_db()
    assert len(web.heard) == 1
    assert warning.told == {"operators_webhook": "answered 500", "webhook": "cannot be reached (ConnectError)"}

    tell_due(NOW + timedelta(minutes=1), with_web)
    tell_due(NOW + timedelta(minutes=3), with_web)
    warning.refresh_from_db()
    assert len(web.heard) == 2
    assert web.heard[0][2] == web.heard[1][2]
    assert warning.told["operators_webhook"] == ""
    assert not warning.done


def test_attempts_end(tenant: Tenant, web: WebSink, config: Config) -> None:
    web.statuses = [503]
    warning = a_warning(tenant)

    for number in range(MOST_ATTEMPTS + 3):
        tell_due(NOW + due_after(number), replace(config, alert_webhook=web.url))

    warning.refresh_from_db()
    assert len(web.heard) == MOST_ATTEMPTS
    assert (warning.done, warning.told) == (True, {"operators_webhook": "answered 503"})


def test_a_redirect_is_not_followed(tenant: Tenant, web: WebSink, config: Config) -> None:
    web.statuses = [307]
    warning = a_warning(tenant)

    tell_due(NOW, replace(config, alert_webhook=web.url))

    warning.refresh_from_db()
    assert [path for path, _, _ in web.heard] == ["/"]
    assert warning.told == {"operators_webhook": "answered 307"}


def test_a_webhook_that_does_not_answer_is_given_up_for_now(
    tenant: Tenant, web: WebSink, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "TIMEOUT_S", 0.2)
    web.stall.clear()
    warning = a_warning(tenant)

    tell_due(NOW, replace(config, alert_webhook=web.url))

    warning.refresh_from_db()
    assert warning.told == {"operators_webhook": "no answer within 0.2 s"}


def test_the_address_of_a_webhook_is_not_noted(tenant: Tenant, config: Config) -> None:
    tenant.alert_webhook = "http://token-in-the-name.invalid/services/T0K3N"
    tenant.save()
    warning = a_warning(tenant)

    told = tell_due(NOW, replace(config, alert_webhook="http://[broken/T0K3N"))

    warning.refresh_from_db()
    assert all(warning.told.values())
    assert "token" not in f"{warning.told} {told}".lower().replace("'tokens'", "")
    assert "T0K3N" not in f"{warning.told} {told}"


def test_a_process_that_dies_while_it_tells_leaves_it_to_the_next(tenant: Tenant, web: WebSink, config: Config) -> None:
    warning = a_warning(tenant)
    BudgetWarning.objects.update(attempts=1)  # claimed, and then nothing

    tell_due(NOW, replace(config, alert_webhook=web.url))
    assert web.heard == []
    tell_due(NOW + timedelta(minutes=1), replace(config, alert_webhook=web.url))

    warning.refresh_from_db()
    assert (len(web.heard), warning.done) == (1, True)


@pytest.mark.django_db(transaction=True)
def test_many_processes_that_tell_at_once_tell_it_once(tenant: Tenant, web: WebSink, config: Config) -> None:
    for month in range(1, 7):
        warning = a_warning(tenant)
        warning.month = date(2030, month + 3, 1)
        warning.save()

    def tell(_: int) -> None:
        try:
            tell_due(NOW, replace(config, alert_webhook=web.url))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tell, range(4)))

    assert sorted(json.loads(body)["month"] for _, _, body in web.heard) == [f"2030-{m:02}" for m in range(4, 10)]
    assert BudgetWarning.objects.filter(done=True).count() == 6
