"""What one cache evicts by: a policy that is fixed, K by the rule of the watermark, or what the ghosts choose."""

from dataclasses import dataclass

from domain.eviction.chooser import Chooser
from domain.eviction.ghost import Ghosts
from domain.eviction.k_rule import KRule, Seen
from domain.eviction.named import NAMES

RULE, LITERAL_RULE, GHOST = "w11", "w11-literal", "ghost"
CHOICES = (RULE, LITERAL_RULE, GHOST, *NAMES)
# Where the ghosts begin: the one that is never far from the best on real traffic that was measured.
FIRST = "mq"
BY_GHOSTS, BY_OPERATOR, BY_SETTING = "ghosts", "operator", "setting"


@dataclass(frozen=True, slots=True)
class Decision:
    """One change of the policy.

    Attributes:
        before: policy until now.
        after: policy from now on.
        why: "ghosts", "operator", "setting", or a :class:`domain.eviction.k_rule.Why`.
    """

    before: str
    after: str
    why: str


class Tuning:
    """Follows a setting, or what an operator fixed in its place.

    Attributes:
        ghosts: what each policy would have hit; kept up whatever decides.
        policy: in force.
        fixed: what an operator chose in place of the setting; "" for nothing.
    """

    def __init__(self, setting: str, ghosts: Ghosts) -> None:
        """Begin.

        Args:
            setting: one of :data:`CHOICES`.
            ghosts: somebody tells them of every look-up.
        """
        self.ghosts = ghosts
        self.fixed = ""
        self._setting = setting
        self._start()
        self.policy = setting if setting in NAMES else FIRST if setting == GHOST else f"lru-{self._rule.k}"

    @property
    def mode(self) -> str:
        """What decides: one of :data:`CHOICES`."""
        return self.fixed or self._setting

    def fix(self, choice: str) -> None:
        """Obey an operator; "" gives it back to the setting, and what is not in :data:`CHOICES` means that too."""
        choice = choice if choice in CHOICES else ""
        if choice != self.fixed:
            self.fixed = choice
            self._start()

    def look(self, seen: Seen, now_s: float) -> Decision | None:
        """Look at the figures; the change of policy that follows, if one does."""
        before = self.policy
        self.policy, why = self._wanted(seen, now_s)
        return Decision(before, self.policy, why) if self.policy != before else None

    def is_paused(self, now_s: float) -> bool:
        """True while the rule decides and a slow eviction holds it still."""
        return self._rule.is_paused(now_s) and self.mode in (RULE, LITERAL_RULE)

    def _start(self) -> None:
        self._rule = KRule(literal=self.mode == LITERAL_RULE)
        self._chooser = Chooser(self.ghosts)

    def _wanted(self, seen: Seen, now_s: float) -> tuple[str, str]:
        if self.mode in NAMES:
            return self.mode, BY_OPERATOR if self.fixed else BY_SETTING
        if self.mode == GHOST:
            return self._chooser.look(self.policy), BY_GHOSTS
        self._rule.look(seen, now_s)
        return f"lru-{self._rule.k}", str(self._rule.why)
