"""What a request seeks among kept answers."""

from dataclasses import dataclass

from caching.entry import Entry
from domain.qos import QosClass
from gateway.schema import Ask
from tenants.snapshot import Caching
from workers.ready.item import Sought


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a request seeks among kept answers.

    Attributes:
        key: names the answer, 16 bytes.
        version: of the model that would answer.
        caching: what the plan says.
        reads: a kept answer will do, if not older than ``max_age_ms``.
        stores: its own answer is to be kept.
        shares: it may share a run with equal requests.
        only_kept: it wants a kept answer or none.
        any_age: its client named no bound of age, so that the last good answer may stand in for an error.
        held: the answer, where this process has it.
    """

    key: bytes
    version: str
    caching: Caching
    reads: bool
    stores: bool
    shares: bool
    only_kept: bool
    any_age: bool
    max_age_ms: int
    held: Entry | None = None

    def sought(self, ask: Ask, qos_class: QosClass, output_tokens: int) -> Sought:
        """The same as admission takes it.

        Runs are shared by those alone whose answers have the same form and bounds, and who wait in the same line.
        """
        name = self.key.hex()
        form = f"{int(ask.stream)}{int(ask.include_usage)}:{qos_class.value}:{output_tokens}"
        return Sought(
            key=name,
            flight=f"{name}:{form}" if self.shares else "",
            reads=self.reads,
            max_age_ms=self.max_age_ms,
            price_percent=self.caching.price_percent,
            held=self.held.usage if self.held else None,
            held_version=self.held.version if self.held else "",
        )
