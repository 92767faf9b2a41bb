"""Chooses the policy that hits most, by the ghosts; not for a lead that may be chance, nor for one that is small."""

import math
from dataclasses import dataclass

from domain.eviction.ghost import Ghosts

# A change costs hits, about in proportion to what the cache holds: so many, for each key of it, are worth the change.
WORTH = 0.2
# What another policy hits more than this share of the hits counts as lead.
MARGIN = 0.01
# Keys come in bursts, and one burst says little: a lead must be so many times what its parts would sum up to if each
# were as likely to be a loss.
DEVIATIONS = 2.5


@dataclass(slots=True)
class _Lead:
    """What one policy hit more than the one in force: the sum of all looks, and of their squares."""

    sum: float = 0.0
    squares: float = 0.0

    def add(self, gained: float, least: float) -> None:
        self.sum += gained - least
        self.squares += gained * gained
        if self.sum <= 0:
            self.sum = self.squares = 0.0


class Chooser:
    """Looks at the ghosts now and then.

    Each other policy's lead over the one in force is summed up and never falls below nothing (CUSUM; Page, 1954). So a
    policy that was worse for long is found as soon as one that was not, and luck that comes and goes sums up to
    nothing. After a change all begin anew.
    """

    def __init__(self, ghosts: Ghosts) -> None:
        self._ghosts = ghosts
        self._asked, self._misses = ghosts.asked, ghosts.misses()
        self._begin()

    def look(self, current: str) -> str:
        """The policy to use: ``current`` unless another one has a lead that is worth the change."""
        asked, misses = self._ghosts.asked, self._ghosts.misses()
        missed = {name: count - self._misses[name] for name, count in misses.items()}
        least = MARGIN * max(0, asked - self._asked - missed[current])
        self._asked, self._misses = asked, misses
        for name, lead in self._leads.items():
            lead.add(missed[current] - missed[name], least)
        best = max(self._leads, key=lambda name: self._leads[name].sum)
        if not self._is_worth_it(self._leads[best]):
            return current
        self._begin()
        return best

    def _begin(self) -> None:
        self._leads = {name: _Lead() for name in self._misses}

    def _is_worth_it(self, lead: _Lead) -> bool:
        return lead.sum > WORTH * self._ghosts.capacity and lead.sum > DEVIATIONS * math.sqrt(lead.squares)
