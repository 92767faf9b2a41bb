"""What a switch will do, in one sentence, before it is done."""

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from gateway_admin.limits import LimitsView
from gateway_admin.live import WorkerView
from gateway_admin.models import Action, State
from gateway_admin.queues import QueueView
from gateway_admin.wording import duration, requests


def of_queue(action: Action, queue: QueueView, limits: LimitsView) -> str:
    """What happens to the requests of a queue."""
    names = {"requests": requests(queue["waiting"]), "deadline": duration(limits["deadline_ms"])}
    if action == Action.PAUSE:
        return (
            _(
                "Nothing is claimed from this queue until it is opened: the %(requests)s waiting now and all new ones "
                "go on waiting, whatever has waited %(deadline)s is refused, and what runs goes on."
            )
            % names
        )
    if action == Action.DRAIN:
        return (
            _(
                "New requests are refused with 503 until it is opened; the %(requests)s waiting now still run, and "
                "what runs goes on."
            )
            % names
        )
    return _("New requests are admitted and workers claim again, beginning with the %(requests)s waiting now.") % names


def of_worker(action: Action, worker: WorkerView | None, workers: list[WorkerView]) -> str:
    """What happens to the requests of a worker, None if it is not alive; ``workers`` are all that live."""
    running = requests(worker["running"]) if worker else requests(0)
    if action == Action.OPEN:
        return _("This worker claims again, beside the %(requests)s running on it now.") % {"requests": running}
    if action == Action.PAUSE:
        text = _("This worker claims nothing until it is opened; the %(requests)s running on it now go on.")
    else:
        text = _(
            "This worker claims nothing more; the %(requests)s running on it now go on, and once none is left the page "
            "says that it is drained and can be stopped."
        )
    return text % {"requests": running} + " " + _who_is_left(worker, workers)


def _who_is_left(worker: WorkerView | None, workers: list[WorkerView]) -> str:
    if worker is None:
        return ""
    left = [
        other
        for other in workers
        if other["id"] != worker["id"]
        and other["model"] == worker["model"]
        and other["state"] == "ready"
        and other["switch"] == State.OPEN
    ]
    orphaned = sorted(set(worker["classes"]) - {qos_class for other in left for qos_class in other["classes"]})
    if orphaned:
        classes = ", ".join(qos_class.upper() for qos_class in orphaned)
        return _("No other open worker serves %(classes)s: requests of that class will wait and then be refused.") % {
            "classes": classes
        }
    text = ngettext("%(count)d other worker takes what waits.", "%(count)d other workers take what waits.", len(left))
    return text % {"count": len(left)}
