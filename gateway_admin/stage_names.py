"""What people call the parts of a request's way."""

from django.utils.translation import gettext as _


def part_names() -> dict[str, str]:
    """Groups, stages and the other names of :mod:`domain.trace`, in the language of the request."""
    return {
        "request": _("Request"),
        "attempt": _("Attempt"),
        "ttft": _("Time to first token"),
        "duration": _("Whole time"),
        "gateway": _("Gateway"),
        "queue": _("Waiting for an engine"),
        "celery": _("Celery and claim"),
        "engine": _("Engine"),
        "way_back": _("Way back"),
        "receive": _("Read and check"),
        "protect": _("Filters and kept answers"),
        "count": _("Count the prompt"),
        "admit": _("Admission in the store"),
        "retry": _("Attempts that were lost"),
        "window": _("Window"),
        "transit": _("Celery message"),
        "room": _("Until an engine had room"),
        "claim": _("Claim from the store"),
        "prepare": _("Into the engine"),
        "engine_queue": _("Queue inside the engine"),
        "prefill": _("Prefill"),
        "decode": _("Decode"),
        "return": _("Worker to gateway"),
        "relay": _("Gateway to client"),
        "finish": _("Ending the answer"),
        "other": _("Everything else"),
    }
