"""What axe-core complains of on a page. It comes with ``npm install axe-core``; ``TEST_AXE`` tells where it is."""

import os
from pathlib import Path

import pytest

from tests.acceptance.browser import Operator

FILE = os.environ.get("TEST_AXE", "")
NEEDS_AXE = pytest.mark.skipif(not FILE, reason="needs axe-core: set TEST_AXE to its axe.min.js")

_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document.querySelector('#content') ? '#content' : document).then(
  ({ violations }) => done(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)),
  (error) => done([String(error)]),
);
"""


def violations(operator: Operator) -> list[str]:
    """Rules that the operators' own part of the page breaks, each with where; without those of the theme around it."""
    operator.driver.execute_script(Path(FILE).read_text(encoding="utf-8"))
    found: list[str] = operator.driver.execute_async_script(_RUN)
    return found
