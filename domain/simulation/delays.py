"""Known delays at known places, so that diagnosis can be tried: does it name the place that was slowed down?

Only for instances whose engine is the simulator.
"""

from dataclasses import dataclass

PLACES = ("window", "transit", "prepare", "relay")
"""Before a ticket is asked for; before a worker begins with it; between claim and engine; before the first piece is
written. Delays inside the engine are asked for by requests, as ``queue`` and ``delay`` of their ``metadata.sim``."""


@dataclass(frozen=True, slots=True)
class Delay:
    """One delay.

    Attributes:
        place: one of :data:`PLACES`.
        seconds: that it takes.
        whose: a worker or a tenant that alone has it; "" for all.
    """

    place: str
    seconds: float
    whose: str = ""


def parse_delays(text: str) -> tuple[Delay, ...]:
    """Read ``place=ms`` or ``place=ms@whose``, with commas between them.

    Raises:
        ValueError: it is not of that form.
    """
    return tuple(_parse(part) for part in text.split(",") if part.strip())


def _parse(part: str) -> Delay:
    place, _, rest = part.strip().partition("=")
    number, _, whose = rest.partition("@")
    if place not in PLACES:
        raise ValueError(f"{place!r} is none of {', '.join(PLACES)}")
    return Delay(place, float(number) / 1000, whose)


def delay_s(delays: tuple[Delay, ...], place: str, *whose: str) -> float:
    """Seconds to wait at ``place`` for whoever ``whose`` names."""
    return sum(delay.seconds for delay in delays if delay.place == place and delay.whose in ("", *whose))
