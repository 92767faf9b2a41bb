"""The text under which a request is counted: what it asked for, whose it was, and of which model."""

from dataclasses import dataclass

_BETWEEN = "\x1f"


@dataclass(frozen=True, slots=True)
class Counted:
    """What one counter stands for.

    Attributes:
        kind: "answer" or "prompt".
        tenant_id: whose requests.
        model: that they asked for.
        key: of the kept answer (16 bytes), or the id of the stored prompt.
    """

    kind: str
    tenant_id: int
    model: str
    key: bytes


def prefix_of(kind: str, tenant_id: int, model: str) -> str:
    """All but the key, which follows as hexadecimal digits."""
    return _BETWEEN.join((kind, str(tenant_id), model, ""))


def parse(name: str) -> Counted | None:
    """Read a name; None for what no release that we know has made."""
    try:
        kind, tenant_id, rest = name.split(_BETWEEN, 2)
        model, key = rest.rsplit(_BETWEEN, 1)
        return Counted(kind, int(tenant_id), model, bytes.fromhex(key))
    except ValueError:
        return None
