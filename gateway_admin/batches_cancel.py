"""Cancelling a batch for a tenant: it ends as if the tenant had asked, and who did it and why is written down."""

from typing import Any

from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.db import transaction

from domain.bulk.status import JobStatus
from gateway_admin.audit import note_cancelling
from gateway_admin.models import Action, Kind, OperatorAction, Result
from tenants.bulk.jobs import JobEnded, cancel_job
from tenants.models import BulkJob


def cancel(operator: User, public_id: str, reason: str) -> OperatorAction:
    """Have a batch cancelled; return the row that tells what came of it.

    Its outcome is ``overtaken`` if the batch ended meanwhile, and ``unchanged`` if it was being cancelled already.

    Raises:
        django.db.DatabaseError: then only the batch itself tells whether it was done.
    """
    row = OperatorAction.objects.create(
        operator=operator,
        operator_name=operator.get_username(),
        action=Action.CANCEL,
        kind=Kind.BATCH,
        target=public_id,
        reason=reason,
    )
    row.outcome = _cancel(public_id, reason)
    row.save(update_fields=["outcome"])
    return row


def _cancel(public_id: str, reason: str) -> Result:
    with transaction.atomic():
        before = BulkJob.objects.select_for_update().filter(public_id=public_id).first()
        if before is None:  # it was deleted, and its tenant with it
            return Result.OVERTAKEN
        if before.status == JobStatus.CANCELLING:
            return Result.UNCHANGED
        try:
            job = cancel_job(public_id)
        except JobEnded:
            return Result.OVERTAKEN
        if job is not None:
            note_cancelling(job, before.status, reason)
        return Result.DONE


def cancelled_by(job: BulkJob) -> list[dict[str, Any]]:
    """Which operators had a batch cancelled, here or by the REST API: when, who and why."""
    entries = LogEntry.objects.get_for_object(job).order_by("-timestamp")[:10]
    return [
        {
            "at": entry.timestamp,
            "by": (entry.additional_data or {}).get("by", ""),
            "reason": entry.changes_dict.get("reason", ["", ""])[-1],
        }
        for entry in entries
    ]
