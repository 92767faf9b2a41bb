"""The page that shows what an edited plan would do, before it is saved."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count, Q
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from domain.limits import KINDS, Amount, Level, Span
from tenants.admin.figures import limit_label, limit_value, money, none_set, to_nano, whole
from tenants.admin.holding import caps_of
from tenants.admin.plausible import oddities
from tenants.files.rows import tenants_above
from tenants.models import LIMIT_FIELDS, QOS_CHOICES, Plan
from tenants.plan_effect import Effect, Over, Peak, effect_of, requests_by_class, requests_by_model

_MINUTES = 60


def preview_context(old: Plan, new: Plan, now: datetime) -> dict[str, Any]:
    """What the template ``plans/preview.html`` shows of ``old``, as saved, becoming ``new``."""
    tenants = old.tenants.aggregate(all=Count("pk"), active=Count("pk", filter=Q(active=True)))
    return {
        "changes": list(_changes(old, new)),
        "tenants": ngettext(
            "%(all)s tenant shares this plan, %(active)s of them active.",
            "%(all)s tenants share this plan, %(active)s of them active.",
            tenants["all"],
        )
        % {name: whole(count) for name, count in tenants.items()},
        "oddities": list(oddities({field: getattr(new, field) for field in _numbers()})),
        "effects": list(_effects(old, new, now)),
        "consequences": list(_consequences(old, new, now)),
        "not_known": [limit_label(name) for name in LIMIT_FIELDS if KINDS[name].span is Span.AT_ONCE],
    }


def _numbers() -> tuple[str, ...]:
    return (*LIMIT_FIELDS, "tokens_per_month_soft", "cost_per_month_soft")


def _changes(old: Plan, new: Plan) -> Iterator[dict[str, str]]:
    for field in Plan._meta.concrete_fields:
        before, after = getattr(old, field.attname), getattr(new, field.attname)
        if field.editable and before != after:
            yield {
                "name": str(capfirst(field.verbose_name)),
                "old": _shown(field.name, old),
                "new": _shown(field.name, new),
            }


def _shown(name: str, plan: Plan) -> str:
    value = getattr(plan, name)
    if name in _numbers():
        return none_set() if value is None else money(to_nano(value)) if "cost" in name else whole(value)
    if name == "allowed_models":
        return ", ".join(value) or _("every model")
    display = getattr(plan, f"get_{name}_display", None)
    return str(display() if display else value)


def _effects(old: Plan, new: Plan, now: datetime) -> Iterator[dict[str, Any]]:
    before, after = caps_of(old, Level.TENANT), caps_of(new, Level.TENANT)
    for name in LIMIT_FIELDS:
        if name not in before and name not in after:
            continue
        effect = effect_of(old, name, before.get(name), after.get(name), now)
        if effect is not None:
            yield _effect(effect, before.get(name), after.get(name))


def _effect(effect: Effect, old: int | None, new: int | None) -> dict[str, Any]:
    name = effect.name
    return {
        "field": name,
        "name": limit_label(name),
        "changed": old != new,
        "old": none_set() if old is None else limit_value(name, old),
        "new": none_set() if new is None else limit_value(name, new),
        "met_before": _met(name, effect.old),
        "met_after": _met(name, effect.new),
        "worse": effect.new is not None and effect.new.tenants > (effect.old.tenants if effect.old else 0),
        "peak": "" if effect.peak is None else _peak(name, effect.peak),
        "over": [{"tenant": peak.tenant, "text": _peak_of(name, peak)} for peak in effect.over],
    }


def _met(name: str, over: Over | None) -> str:
    if over is None:
        return _("nothing is refused by it")
    if not over.tenants:
        return _("no tenant was over it")
    span = KINDS[name].span
    values = {
        "tenants": _tenants(over.tenants),
        "periods": whole(over.periods),
        "excess": _amount(name, over.excess),
        "now": whole(over.now),
    }
    if span is Span.MINUTE:
        told = _("%(tenants)s over it, %(periods)s times for an hour of the last 24; at least %(excess)s beyond it")
    elif span is Span.DAY:
        told = _(
            "%(tenants)s over it, %(periods)s times in the last 7 days, %(now)s of them today; %(excess)s beyond it"
        )
    else:
        told = _("%(tenants)s over it this month; %(excess)s beyond it")
    return told % values


def _amount(name: str, value: int) -> str:
    """With its unit."""
    amount = KINDS[name].amount
    if amount is Amount.REQUESTS:
        return ngettext("%(count)s request", "%(count)s requests", value) % {"count": whole(value)}
    return money(value) if amount is Amount.COST else _("%(count)s tokens") % {"count": whole(value)}


def _tenants(count: int) -> str:
    return ngettext("%(count)s tenant", "%(count)s tenants", count) % {"count": whole(count)}


def _peak(name: str, peak: Peak) -> str:
    return f"{peak.tenant.slug}: {_peak_of(name, peak)}"


def _peak_of(name: str, peak: Peak) -> str:
    values = {"taken": limit_value(name, peak.taken)}
    span = KINDS[name].span
    if span is Span.MINUTE:
        values |= {"at": f"{peak.starts_at:%m-%d %H:00}Z", "minute": limit_value(name, round(peak.taken / _MINUTES))}
        return _("%(taken)s in the hour from %(at)s, %(minute)s a minute on average") % values
    if span is Span.DAY:
        return _("%(taken)s on %(at)s") % {**values, "at": f"{peak.starts_at:%Y-%m-%d}"}
    return _("%(taken)s this month so far") % values


def _consequences(old: Plan, new: Plan, now: datetime) -> Iterator[str]:
    if set(old.allowed_models) != set(new.allowed_models) and new.allowed_models:
        lost = {model: n for model, n in requests_by_model(old, now).items() if model not in new.allowed_models}
        yield from _lost_models(lost)
    if new.best_class > old.best_class:
        lost_classes = {name: n for name, n in requests_by_class(old, now).items() if name < new.best_class}
        told = _("%(count)s requests of the last 7 days had a better class than %(best)s; such ones get that.")
        yield told % {"count": whole(sum(lost_classes.values())), "best": dict(QOS_CHOICES)[new.best_class]}
    if old.weight != new.weight:
        told = _("Against other tenants of its class each of these gets %(factor)s times the share it had.")
        yield told % {"factor": f"{new.weight / old.weight:.3g}"}
    if old.cache_sharing != new.cache_sharing:
        yield _("Prompts that are cached now are not found again: they are computed anew when they come next.")
    if old.retention_hours and not new.retention_hours:
        yield _("Answers are no longer kept: a repeated request with an Idempotency-Key cannot get its answer again.")
    if new.retention_hours > old.retention_hours:
        yield _("Answers are stored in clear for %(hours)d hours.") % {"hours": new.retention_hours}
    yield from _kept_answers(old, new)
    yield from _kept_files(old, new)


def _kept_files(old: Plan, new: Plan) -> Iterator[str]:
    """What becomes of uploads and batches."""
    if old.files_mib and not new.files_mib:
        yield _("No more files are taken, and no batches begin; what is stored stays until it expires.")
    elif new.files_mib < old.files_mib:
        full = tenants_above(old, new.files_mib)
        told = ngettext(
            "%(count)s tenant has stored as much already, and cannot upload before files are deleted or expire.",
            "%(count)s tenants have stored as much already, and cannot upload before files are deleted or expire.",
            full,
        )
        if full:
            yield told % {"count": whole(full)}
    elif new.files_mib and not old.files_mib:
        yield _("Files are taken from now on, and batches of them.")


def _kept_answers(old: Plan, new: Plan) -> Iterator[str]:
    """What of answers to equal requests begins or ends to be kept, where, and for how long."""
    was_kept, is_kept = old.response_cache != "off", new.response_cache != "off"
    if was_kept and not is_kept:
        yield _("Equal requests are computed again, each of them. What is kept is not given any more and runs out.")
        return
    if not is_kept:
        return
    if new.response_cache != old.response_cache or new.response_cache_ttl_s > old.response_cache_ttl_s:
        which = _("All answers") if new.response_cache == "all" else _("Answers that a repetition would give again")
        told = _(
            "%(which)s are kept in the gateways' memory and in the store, compressed and readable there, for "
            "%(seconds)s seconds, and are given to equal requests%(whom)s."
        )
        whom = _(" of every tenant whose plan shares") if new.cache_sharing == "shared" else _(" of the same tenant")
        yield told % {"which": which, "seconds": whole(new.response_cache_ttl_s), "whom": whom}
    if new.max_stale_s > (old.max_stale_s if was_kept else 0):
        told = _(
            "The last good answers are kept on the gateways' disks for %(seconds)s seconds, for when engines fail."
        )
        yield told % {"seconds": whole(new.max_stale_s)}
    if new.cached_price_percent != old.cached_price_percent:
        told = _("A kept answer counts and costs %(percent)d percent of a computed one, instead of %(before)d.")
        yield told % {"percent": new.cached_price_percent, "before": old.cached_price_percent}


def _lost_models(lost: dict[str, int]) -> Iterator[str]:
    if not lost:
        yield _("No request of the last 7 days was for a model that is no longer allowed.")
    for model, count in lost.items():
        told = _("%(count)s requests of the last 7 days were for %(model)s, which would be refused.")
        yield told % {"count": whole(count), "model": model}
