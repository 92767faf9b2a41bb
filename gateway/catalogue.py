"""Which models there are, under which names, and who may use them."""

import time
from dataclasses import dataclass

from gateway.runtime import runtime
from tenants.snapshot import Principal

_STARTED_AT = int(time.time())


@dataclass(frozen=True, slots=True)
class Model:
    """A model that clients may name.

    Attributes:
        name: the id that clients send; an alias is a model of its own here.
        canonical: the name that engines serve.
        created: unix seconds; when its longest-running engine started.
        max_model_len: tokens of prompt and answer together; 0 while no engine has said.
    """

    name: str
    canonical: str
    created: int
    max_model_len: int


def models() -> list[Model]:
    """All models: the configured one, what live engines serve besides, and the aliases."""
    here = runtime()
    canonical = here.models()
    aliases = [alias for alias in here.config.model_aliases if alias not in canonical]
    return [_model(name, name) for name in canonical] + [_model(name, here.config.model_name) for name in aliases]


def _model(name: str, canonical: str) -> Model:
    workers = [worker for worker in runtime().workers if worker.model == canonical]
    return Model(
        name=name,
        canonical=canonical,
        created=min((worker.started_at for worker in workers if worker.started_at), default=_STARTED_AT),
        max_model_len=max((worker.max_model_len for worker in workers), default=0),
    )


def endpoints(canonical: str) -> frozenset[str]:
    """What can be asked of a model, as far as its engines have said; empty while none has."""
    # An engine that is still loading does not know yet.
    told = [worker for worker in runtime().workers if worker.model == canonical and worker.version]
    return frozenset(endpoint for worker in told for endpoint in worker.endpoints)


def allows(principal: Principal, canonical: str) -> bool:
    """Whether the principal's plan includes the model that engines serve as ``canonical``."""
    return principal.allowed_models is None or canonical in principal.allowed_models
