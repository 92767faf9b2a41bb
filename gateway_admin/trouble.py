"""What is wrong with the queues and why, one sentence each: the top of the page "Queues"."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypedDict

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from gateway_admin.limits import LimitsView
from gateway_admin.live import WorkerView
from gateway_admin.models import Kind, OperatorAction, State, target_name
from gateway_admin.queues import ModelView, QueuesView, QueueView
from gateway_admin.switch import Target
from gateway_admin.wording import by_whom, duration, requests

_NEAR_DEADLINE = 0.5


class Trouble(TypedDict):
    """One thing that is wrong: ``bad`` needs a hand now, ``wait`` is to be watched."""

    key: str
    level: Literal["bad", "wait"]
    text: str


def find_troubles(
    view: QueuesView, limits: Mapping[str, LimitsView], switched_by: Mapping[str, OperatorAction]
) -> list[Trouble]:
    """Judge all queues and workers; the worst comes first.

    Args:
        view: what stands in the store.
        limits: of each class.
        switched_by: the action that paused or drained, by field of ``sl:switch``.
    """
    found = [*_of_workers(view["workers"], switched_by)]
    for model in view["models"]:
        found += _of_model(model, [w for w in view["workers"] if w["model"] == model["name"]], limits, switched_by)
    return sorted(found, key=lambda trouble: trouble["level"] != "bad")


def _of_model(
    model: ModelView,
    workers: list[WorkerView],
    limits: Mapping[str, LimitsView],
    switched_by: Mapping[str, OperatorAction],
) -> Iterator[Trouble]:
    for queue in model["queues"]:
        serving = [worker for worker in workers if queue["qos_class"] in worker["classes"]]
        trouble = _switched(queue, switched_by) or _late(queue, serving, limits[queue["qos_class"]])
        if trouble is not None:
            yield trouble
    if model["on_trial"]:
        text = ngettext(
            "%(model)s: %(count)d request was on an engine when it died. It runs on trial.",
            "%(model)s: %(count)d requests were on an engine when it died. They run on trial, one at a time.",
            model["on_trial"],
        )
        names = {"model": model["name"], "count": model["on_trial"]}
        yield {"key": f"trial:{model['name']}", "level": "wait", "text": text % names}


def _queue_target(queue: QueueView) -> Target:
    return Target(Kind.QUEUE, f"{queue['model']}:{queue['qos_class']}")


def _switched(queue: QueueView, switched_by: Mapping[str, OperatorAction]) -> Trouble | None:
    target = _queue_target(queue)
    names = {
        "queue": target_name(target.kind, target.name),
        "by": by_whom(switched_by.get(target.field)),
        "requests": requests(queue["waiting"]),
    }
    if queue["state"] == State.PAUSED:
        text = _("%(queue)s is paused%(by)s: nothing is claimed, %(requests)s waiting.") % names
        return {"key": target.field, "level": "bad" if queue["waiting"] else "wait", "text": text}
    if queue["state"] == State.DRAINING:
        text = _("%(queue)s is draining%(by)s: new requests are refused, %(requests)s still waiting.") % names
        return {"key": target.field, "level": "wait", "text": text}
    return None


def _late(queue: QueueView, serving: list[WorkerView], limits: LimitsView) -> Trouble | None:
    if not queue["waiting"]:
        return None
    target = _queue_target(queue)
    waited_ms, waits = queue["oldest_wait_ms"] or 0, queue["waits"]
    names = {
        "queue": target_name(target.kind, target.name),
        "requests": requests(queue["waiting"]),
        "waited": duration(waited_ms),
        "tolerated": duration(limits["tolerated_ms"]),
        "deadline": duration(limits["deadline_ms"]),
    }
    stuck = _nobody_serves(serving)
    if stuck:
        text = _("%(queue)s: %(requests)s waiting for %(waited)s. %(cause)s They are refused after %(deadline)s.")
        return {"key": target.field, "level": "bad", "text": text % {**names, "cause": stuck}}
    if waited_ms > limits["tolerated_ms"]:
        text = _("%(queue)s waits %(waited)s (tolerates %(tolerated)s): %(cause)s")
        near = waited_ms > _NEAR_DEADLINE * limits["deadline_ms"]
        cause = _why_late(queue, serving)
        if near:
            cause += " " + _("Requests are refused after %(deadline)s.") % names
        return {"key": target.field, "level": "bad" if near else "wait", "text": text % {**names, "cause": cause}}
    if waits and waits["p95_ms"] > limits["tolerated_ms"]:
        text = _("%(queue)s: one in 20 of the last requests waited %(p95)s or more (tolerates %(tolerated)s).")
        text %= {**names, "p95": duration(waits["p95_ms"])}
        return {"key": target.field, "level": "wait", "text": text}
    return None


def _nobody_serves(serving: list[WorkerView]) -> str:
    if not serving:
        return _("No worker that serves this class is alive.")
    ready = [worker for worker in serving if worker["state"] == "ready"]
    if not ready:
        states = ", ".join(f"{worker['id']}: {worker['reason'] or worker['state']}" for worker in serving[:3])
        return _("No worker is ready (%(states)s).") % {"states": states}
    if all(worker["switch"] != State.OPEN for worker in ready):
        return _("Every worker that is ready is paused or draining.")
    return ""


def _why_late(queue: QueueView, serving: list[WorkerView]) -> str:
    open_ones = [worker for worker in serving if worker["state"] == "ready" and worker["switch"] == State.OPEN]
    if queue["room"] > 0:
        text = _("there is room for %(room)d, but no worker has claimed it yet; a request may need more at once.")
        return text % {"room": queue["room"]}
    if any(worker["free_seqs"] > 0 for worker in open_ones):
        return _("what is free is kept for more urgent classes.")
    text = ngettext("the worker is full%(cap)s.", "all %(count)d workers are full%(cap)s.", len(open_ones))
    return text % {"count": len(open_ones), "cap": _caps(open_ones)}


def _caps(workers: list[WorkerView]) -> str:
    capped = [worker for worker in workers if worker["cap"] is not None and worker["cap"] < worker["max_num_seqs"]]
    if not capped:
        return ""
    reasons = sorted({worker["cap_reason"] for worker in capped} - {""})
    names = {
        "cap": sum(worker["cap"] or 0 for worker in capped),
        "limit": sum(worker["max_num_seqs"] for worker in capped),
        "why": f": {'; '.join(reasons)}" if reasons else "",
    }
    return _(" (held to %(cap)d of %(limit)d sequences%(why)s)") % names


def _of_workers(workers: list[WorkerView], switched_by: Mapping[str, OperatorAction]) -> Iterator[Trouble]:
    for worker in workers:
        field = Target(Kind.WORKER, worker["id"]).field
        names = {"worker": worker["id"], "by": by_whom(switched_by.get(field)), "reason": worker["reason"]}
        names["requests"] = requests(worker["running"])
        if worker["state"] == "failed":
            yield {"key": field, "level": "bad", "text": _("%(worker)s has failed: %(reason)s") % names}
        elif worker["switch"] == State.PAUSED:
            text = _("%(worker)s is paused%(by)s: it claims nothing, %(requests)s running to the end.") % names
            yield {"key": field, "level": "wait", "text": text}
        elif worker["switch"] == State.DRAINING and worker["running"]:
            text = _("%(worker)s is draining%(by)s: %(requests)s running to the end.") % names
            yield {"key": field, "level": "wait", "text": text}
        elif worker["switch"] == State.DRAINING:
            text = _("%(worker)s is drained%(by)s: nothing runs on it, it can be stopped.") % names
            yield {"key": field, "level": "wait", "text": text}
