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
_NAMED = 3


class Trouble(TypedDict):
    """One thing that is wrong: ``bad`` needs a hand now, ``wait`` is to be watched.

    ``target`` is what an operator can open to end it: kind and name, else empty.
    """

    key: str
    level: Literal["bad", "wait"]
    text: str
    target: tuple[str, str] | None


def find_troubles(
    view: QueuesView, limits: Mapping[str, LimitsView], switched_by: Mapping[str, OperatorAction]
) -> list[Trouble]:
    """Judge all queues and workers; the worst comes first.

    Args:
        view: what stands in the store.
        limits: of each class.
        switched_by: the action that paused or drained, by field of ``sl:switch``.
    """
    found = [*_of_workers(view["workers"], switched_by), *_of_absent(view)]
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
        kept = max((other["room"] for other in model["queues"] if other["qos_class"] < queue["qos_class"]), default=0)
        trouble = _switched(queue, switched_by) or _late(queue, serving, limits[queue["qos_class"]], kept)
        if trouble is not None:
            yield trouble
    if model["on_trial"]:
        text = ngettext(
            "%(model)s: %(count)d request was on an engine when it died. It runs on trial.",
            "%(model)s: %(count)d requests were on an engine when it died. They run on trial, one at a time.",
            model["on_trial"],
        )
        names = {"model": model["name"], "count": model["on_trial"]}
        yield _trouble(f"trial:{model['name']}", "wait", text % names)


def _trouble(key: str, level: Literal["bad", "wait"], text: str, target: Target | None = None) -> Trouble:
    return {"key": key, "level": level, "text": text, "target": (target.kind.value, target.name) if target else None}


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
        text = _("%(queue)s is paused%(by)s: nothing is claimed, %(requests)s waiting.")
    elif queue["state"] == State.DRAINING and queue["waiting"]:
        text = _("%(queue)s is draining%(by)s: new requests are refused, %(requests)s still waiting.")
    elif queue["state"] == State.DRAINING:
        text = _("%(queue)s is drained%(by)s: new requests are refused, and none waits any more.")
    else:
        return None
    stuck = queue["state"] == State.PAUSED and queue["waiting"]
    return _trouble(target.field, "bad" if stuck else "wait", text % names, target)


def _late(queue: QueueView, serving: list[WorkerView], limits: LimitsView, kept: int) -> Trouble | None:
    if not queue["waiting"]:
        return None
    target = _queue_target(queue)
    waited_ms, waits = queue["oldest_wait_ms"] or 0, queue["waits"]
    stuck = _nobody_serves(serving)
    near = waited_ms > _NEAR_DEADLINE * limits["deadline_ms"]
    if stuck:
        text = _("%(queue)s: %(requests)s waiting, the oldest for %(waited)s. %(cause)s")
    elif waited_ms > limits["tolerated_ms"]:
        text = _("%(queue)s waits %(waited)s (tolerates %(tolerated)s): %(cause)s")
    elif waits and waits["p95_ms"] > limits["tolerated_ms"]:
        text = _("%(queue)s: one in 20 of the last requests waited %(p95)s or more (tolerates %(tolerated)s).")
    else:
        return None
    if stuck or near:
        text += " " + _("Requests are refused after %(deadline)s.")
    names = {
        "queue": target_name(target.kind, target.name),
        "requests": requests(queue["waiting"]),
        "waited": duration(waited_ms),
        "tolerated": duration(limits["tolerated_ms"]),
        "deadline": duration(limits["deadline_ms"]),
        "p95": duration(waits["p95_ms"]) if waits else "",
        "cause": stuck or _why_late(queue, serving, kept),
    }
    return _trouble(target.field, "bad" if stuck or near else "wait", text % names)


def _nobody_serves(serving: list[WorkerView]) -> str:
    if not serving:
        return _("No worker that serves this class is alive.")
    ready = [worker for worker in serving if worker["state"] == "ready"]
    if not ready:
        states = ", ".join(f"{worker['id']}: {worker['reason'] or worker['state']}" for worker in serving[:_NAMED])
        return _("No worker is ready (%(states)s).") % {"states": states}
    if all(worker["switch"] != State.OPEN for worker in ready):
        return _("Every worker that is ready is paused or draining.")
    return ""


def _why_late(queue: QueueView, serving: list[WorkerView], kept: int) -> str:
    open_ones = [worker for worker in serving if worker["state"] == "ready" and worker["switch"] == State.OPEN]
    count, room = len(open_ones), queue["room"]
    names = {"count": count, "cap": _caps(open_ones), "kept": kept, "room": room}
    if room >= queue["waiting"]:
        text = _("there is room for %(room)d, but no worker has claimed it yet; a request may need more at once.")
    elif room:
        text = ngettext(
            "the worker has room for only %(room)d%(cap)s.",
            "all %(count)d workers together have room for only %(room)d%(cap)s.",
            count,
        )
    elif kept:
        text = ngettext(
            "the worker is full%(cap)s but for %(kept)d kept free for more urgent classes.",
            "all %(count)d workers are full%(cap)s but for %(kept)d kept free for more urgent classes.",
            count,
        )
    else:
        text = ngettext("the worker is full%(cap)s.", "all %(count)d workers are full%(cap)s.", count)
    return text % names


def _caps(workers: list[WorkerView]) -> str:
    capped = [worker for worker in workers if worker["cap"] is not None and worker["cap"] < worker["max_num_seqs"]]
    if not capped:
        return ""
    reasons = sorted({worker["cap_reason"] for worker in capped} - {""})
    names = {
        "workers": ", ".join(worker["id"] for worker in capped[:_NAMED]),
        "cap": sum(worker["cap"] or 0 for worker in capped),
        "limit": sum(worker["max_num_seqs"] for worker in capped),
        "why": f": {'; '.join(reasons)}" if reasons else "",
    }
    return _(" (%(workers)s held to %(cap)d of %(limit)d sequences%(why)s)") % names


def _of_workers(workers: list[WorkerView], switched_by: Mapping[str, OperatorAction]) -> Iterator[Trouble]:
    for worker in workers:
        target = Target(Kind.WORKER, worker["id"])
        names = {
            "worker": worker["id"],
            "by": by_whom(switched_by.get(target.field)),
            "reason": worker["reason"],
            "requests": requests(worker["running"]),
        }
        if worker["state"] == "failed":
            yield _trouble(target.field, "bad", _("%(worker)s has failed: %(reason)s") % names)
        elif worker["switch"] != State.OPEN:
            yield _trouble(target.field, "wait", _of_switched_worker(worker) % names, target)


def _of_switched_worker(worker: WorkerView) -> str:
    if worker["switch"] == State.PAUSED:
        return _("%(worker)s is paused%(by)s: it claims nothing, %(requests)s running to the end.")
    if worker["running"]:
        return _("%(worker)s is draining%(by)s: %(requests)s running to the end.")
    return _("%(worker)s is drained%(by)s: nothing runs on it, it can be stopped.")


def _of_absent(view: QueuesView) -> Iterator[Trouble]:
    alive = {worker["id"] for worker in view["workers"]}
    for field in sorted(view["states"]):
        kind, _colon, name = field.partition(":")
        if kind == Kind.WORKER and name not in alive:
            text = _("%(worker)s is not alive, and will claim nothing if it comes back, until it is opened.")
            yield _trouble(field, "wait", text % {"worker": name}, Target(Kind.WORKER, name))
