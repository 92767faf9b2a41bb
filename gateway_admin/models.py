"""What operators did to queues, workers, kept answers and batches; their tokens."""

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from gateway_admin.automation_token import AutomationToken
from tenants.models import QOS_CHOICES

__all__ = [
    "CACHE_CHOICES",
    "SWITCHES",
    "Action",
    "AutomationToken",
    "Kind",
    "OperatorAction",
    "Result",
    "State",
    "cache_choice",
    "target_name",
]

_CLASS_NAMES = dict(QOS_CHOICES)


class Kind(models.TextChoices):
    """What can be switched."""

    QUEUE = "queue", _("queue")
    WORKER = "worker", _("worker")
    CACHE = "cache", _("kept answers")
    BATCH = "batch", _("batch")


class State(models.TextChoices):
    """How it can stand."""

    OPEN = "open", _("open")
    PAUSED = "paused", _("paused")
    DRAINING = "draining", _("draining")


class Action(models.TextChoices):
    """What an operator can ask for."""

    PAUSE = "pause", _("Pause")
    DRAIN = "drain", _("Drain")
    OPEN = "open", _("Open")
    FIX = "fix", _("Fix")
    RELEASE = "release", _("Give back")
    CANCEL = "cancel", _("Cancel")


class Result(models.TextChoices):
    """What came of it."""

    ASKED = "asked", _("unknown: the gateway ended before it was told")
    DONE = "done", _("done")
    UNCHANGED = "unchanged", _("nothing to do: it was so already")
    OVERTAKEN = "overtaken", _("not done: somebody else changed it first")
    FAILED = "failed", _("failed: Valkey did not answer as it should")


SWITCHES = [choice for choice in Action.choices if choice[0] in (Action.PAUSE, Action.DRAIN, Action.OPEN)]
"""What can be done to queues and workers."""

CACHE_CHOICES: dict[str, Any] = {
    "w11": _("K by the memory watermark"),
    "w11-literal": _("K by the memory watermark, plain hit rate"),
    "ghost": _("whichever policy hits most"),
    "lru": "LRU",
    "lru-2": "LRU-2",
    "lru-3": "LRU-3",
    "lru-5": "LRU-5",
    "arc": "ARC",
    "mq": "MQ",
}


def cache_choice(name: str) -> str:
    """Name for a person what gateways evict kept answers by."""
    return str(CACHE_CHOICES.get(name, name))


def target_name(kind: str, target: str) -> str:
    """Name a target for a person; the target of a queue is ``<model>:<class>``."""
    if kind == Kind.CACHE:
        return cache_choice(target)
    if kind != Kind.QUEUE:
        return target
    model, _colon, qos_class = target.rpartition(":")
    names = {"class": _CLASS_NAMES.get(qos_class, qos_class), "model": model}
    return str(_("%(class)s of %(model)s") % names)


class OperatorAction(models.Model):
    """One attempt to switch something. Written before the attempt, so that none goes unseen."""

    at = models.DateTimeField(_("at"), default=timezone.now)
    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", verbose_name=_("operator")
    )
    operator_name = models.CharField(_("operator's name"), max_length=150)
    action = models.CharField(_("action"), max_length=8, choices=Action.choices)
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    target = models.CharField(_("target"), max_length=255)
    previous_state = models.CharField(_("state before"), max_length=8, choices=State.choices, blank=True)
    reason = models.CharField(_("reason"), max_length=300, blank=True)
    outcome = models.CharField(_("outcome"), max_length=16, choices=Result.choices, default=Result.ASKED)

    class Meta:
        verbose_name = _("operator's action")
        verbose_name_plural = _("operators' actions")
        ordering = ["-at", "-id"]
        default_permissions = ("view",)
        permissions = [("switch_traffic", _("Can pause, drain and open queues and workers"))]
        indexes = [
            models.Index(fields=["-at"], name="action_at"),
            models.Index(fields=["kind", "target", "-at"], name="action_target_at"),
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()}: {self.target_name}"

    @property
    def target_name(self) -> str:
        """The target as a person calls it."""
        return target_name(self.kind, self.target)
