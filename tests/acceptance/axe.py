"""What axe-core complains of on a page; ``tools/schemas.py`` installs it."""

import pytest

from tests.acceptance.browser import Operator
from tools import schemas

NEEDS_AXE = pytest.mark.skipif(schemas.folder() is None, reason=schemas.MISSING)

_RUN = """
async () => {
  const { violations } = await axe.run(document.querySelector('#content') ? '#content' : document);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}
"""


def violations(operator: Operator) -> list[str]:
    """Rules that the operators' own part of the page breaks, each with where; without those of the theme around it."""
    folder = schemas.folder()
    assert folder is not None
    axe = folder / "node_modules" / "axe-core" / "axe.min.js"
    operator.run(axe.read_text(encoding="utf-8"))
    found: list[str] = operator.run(_RUN)
    return found
