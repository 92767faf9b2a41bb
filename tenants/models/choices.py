"""The values that columns take, with the names that operators read."""

from django.utils.translation import gettext_lazy as _

from domain.outcome import Outcome, RollbackCause
from domain.qos import QosClass

QOS_CHOICES = [
    (QosClass.P0.value, _("P0 real time")),
    (QosClass.P1.value, _("P1 core business")),
    (QosClass.P2.value, _("P2 background")),
]
OUTCOME_CHOICES = [
    (Outcome.COMPLETED.value, _("Completed")),
    (Outcome.CANCELLED.value, _("Cancelled by the client")),
    (Outcome.REJECTED.value, _("Rejected by the engine")),
    (Outcome.EXPIRED.value, _("Waited too long")),
    (Outcome.FAILED.value, _("Engine failed")),
    (Outcome.TIMEOUT.value, _("Ran too long")),
    (Outcome.GATEWAY_LOST.value, _("Gateway lost")),
]
ROLLBACK_CHOICES = [
    (RollbackCause.WORKER_LOST.value, _("Worker lost")),
    (RollbackCause.WORKER_STOPPED.value, _("Worker stopped")),
    (RollbackCause.ENGINE_DEAD.value, _("Engine dead")),
    (RollbackCause.ENGINE_ERROR.value, _("Engine error")),
    (RollbackCause.LEADER_LOST.value, _("Shared run ended early")),
]
SHARING_CHOICES = [
    ("private", _("Each tenant for itself")),
    ("shared", _("Shared by all tenants whose plan says so")),
]
CACHING_CHOICES = [
    ("off", _("Compute every request")),
    ("deterministic", _("Keep answers that a repetition would give again (temperature 0, or a seed)")),
    ("all", _("Keep all answers")),
]
CACHE_CHOICES = [
    ("hit", _("Kept answer")),
    ("coalesced", _("Shared with an equal request")),
    ("stale", _("Last good answer")),
]
SCOPE_CHOICES = [
    ("inference", _("Ask models")),
    ("usage", _("Read own usage and limits")),
]
SCOPES = [name for name, _label in SCOPE_CHOICES]
