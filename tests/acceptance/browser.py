"""A person at a real browser, and what such a person would notice."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as NeverSeen

from tools import chromium

Answer = TypeVar("Answer")

NEEDS_BROWSER = pytest.mark.skipif(chromium.program() is None and not chromium.is_required(), reason=chromium.MISSING)

WAIT_MS = 40_000
WIDTH, HEIGHT = 1400, 1000
FLAGS = ("--disable-gpu", "--disable-quic", "--disable-sync")
LOCALES = {"en": "en", "zh": "zh-CN"}

# What is not shown has no text.
_TEXTS = """
(selector) => [...document.querySelectorAll(selector)].map(
  (one) => one.checkVisibility() ? (one.innerText ?? one.textContent).trim() : ''
)
"""
_HAS_TEXT = """
([selector, text]) => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text))
"""
_FOCUS = "(one) => { window.focusedByTest = one; one.focus(); }"
_HOSTS = "performance.getEntriesByType('resource').map((entry) => entry.name)"

# WCAG 2: contrast of text that is shown against the first background behind it that is not transparent.
_PALE_TEXTS = """
(root) => {
  const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const rgba = (css) => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  return [...document.querySelectorAll(root + ' *')].filter((element) => {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) return false;
    const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
  }).map((element) => element.textContent.trim());
}
"""


@dataclass(frozen=True, slots=True)
class Chromium:
    """A running browser, and the one thread in which it may be touched.

    Playwright keeps an event loop running in its thread, also between two calls. In the thread of the tests Django
    would then refuse the ORM, and ``asyncio.run`` and asynchronous tests would fail. With a thread of its own nothing
    has to be allowed for its sake, as DJANGO_ALLOW_ASYNC_UNSAFE would, also to the products that the tests start.
    """

    thread: ThreadPoolExecutor
    browser: Browser


@contextmanager
def run_chromium() -> Iterator[Chromium]:
    """Debian's Chromium, driven by Playwright, which brings none of its own."""
    program = chromium.program()
    assert program, chromium.MISSING
    with ThreadPoolExecutor(1, "playwright") as thread:
        playwright = thread.submit(lambda: sync_playwright().start()).result()
        try:
            launch = thread.submit(lambda: playwright.chromium.launch(executable_path=program, args=FLAGS))
            browser = launch.result()
            try:
                yield Chromium(thread, browser)
            finally:
                thread.submit(browser.close).result()
        finally:
            thread.submit(playwright.stop).result()


@dataclass
class Operator:
    """A person at a browser. Selectors are CSS; the first element that fits one is meant.

    ``page`` is for ``do`` alone, which runs what it is given in Playwright's thread.
    """

    thread: ThreadPoolExecutor
    page: Page
    base_url: str
    pictures: Path
    heard: Sequence[str]

    def do(self, what: Callable[[Page], Answer]) -> Answer:
        return self.thread.submit(what, self.page).result()

    def _at(self, selector: str, what: Callable[[Locator], Answer]) -> Answer:
        return self.do(lambda page: what(page.locator(selector).first))

    def run(self, script: str, argument: object = None) -> Any:
        """What an expression, or a function of one argument, comes to in the page."""
        return self.do(lambda page: page.evaluate(script, argument))

    # --- what a person does ----------------------------------------------------------------------------------------

    def open(self, page: str, *args: object, query: str = "") -> None:
        self.go(f"{self.base_url}{reverse(page, args=list(args))}{query}")

    def go(self, address: str) -> None:
        self.do(lambda page: page.goto(address))

    def reload(self) -> None:
        self.do(lambda page: page.reload())

    def login(self, password: str, username: str = "admin") -> None:
        self.open("admin:index")
        self.fill("[name=username]", username)
        self.fill("[name=password]", password)
        self.click("button[type=submit]")
        self.wait_for("#content")

    def click(self, selector: str) -> None:
        """Click; where this leads to another page, that one has come when this returns."""
        self._at(selector, lambda one: one.click())

    def fill(self, selector: str, text: str) -> None:
        self._at(selector, lambda one: one.fill(text))

    def choose(self, selector: str, index: int) -> None:
        self._at(selector, lambda one: one.select_option(index=index))

    def press(self, key: str) -> None:
        """Press a key, by its name, where the focus is."""
        self._at(":focus", lambda one: one.press(key))

    def type(self, text: str) -> None:
        """Type where the focus is."""
        self._at(":focus", lambda one: one.press_sequentially(text))

    def focus(self, selector: str) -> None:
        self._at(selector, lambda one: one.evaluate(_FOCUS))

    def download(self, selector: str) -> Path:
        """The file that a click brings."""

        def save(page: Page) -> Path:
            with page.expect_download() as download:
                page.locator(selector).first.click()
            path = self.pictures / download.value.suggested_filename
            download.value.save_as(path)
            return path

        return self.do(save)

    # --- what a person sees ----------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return self.do(lambda page: page.url)

    def text(self, selector: str) -> str:
        return self._at(selector, lambda one: one.inner_text()).strip()

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(_TEXTS, selector)
        return found

    def value(self, selector: str) -> str:
        return self._at(selector, lambda one: one.input_value())

    def is_checked(self, selector: str) -> bool:
        return self._at(selector, lambda one: one.is_checked())

    def shows(self, selector: str) -> bool:
        """Whether an element, which must be there, is visible."""
        return self._at(selector, lambda one: one.element_handle().is_visible())

    def focused(self, attribute: str) -> str | None:
        """An attribute of what has the focus."""
        return self._at(":focus", lambda one: one.get_attribute(attribute))

    def keeps_focus(self) -> bool:
        """Whether the very element that was focused last, and none that took its place, has the focus."""
        return bool(self.run("document.activeElement === window.focusedByTest"))

    def wait_for(self, selector: str) -> None:
        self._wait(lambda page: page.locator(selector).first.wait_for(state="attached"), selector)

    def wait_for_text(self, selector: str, text: str) -> None:
        self._wait(lambda page: page.wait_for_function(_HAS_TEXT, arg=[selector, text]), f"{selector} with {text!r}")

    def wait_for_address(self, end: str) -> None:
        self._wait(lambda page: page.wait_for_url(lambda url: url.endswith(end)), f"an address that ends in {end}")

    def _wait(self, what: Callable[[Page], object], name: str) -> None:
        try:
            self.do(what)
        except NeverSeen as error:
            self.picture("missed")
            shown = self.run("document.body ? document.body.innerText : ''")
            said = f"the browser says {self.complaints()} at {self.address}, which shows {shown[:500]!r}"
            raise AssertionError(f"never seen: {name}; {said}") from error

    def picture(self, name: str, *, whole: bool = False) -> None:
        if whole:
            height = max(HEIGHT, self.run("document.getElementById('content').scrollHeight + 320"))
            self.do(lambda page: page.set_viewport_size({"width": WIDTH, "height": height}))
        self.do(lambda page: page.screenshot(path=self.pictures / f"{name}.png"))

    def hosts(self) -> set[str]:
        return {urlsplit(name).netloc for name in self.run(_HOSTS) if name.startswith("http")}

    def complaints(self) -> list[str]:
        """Errors that the browser told since it was opened: of scripts, of requests, of policies."""
        self.run("0")  # what came before this answer has come
        return list(self.heard)

    def pale_texts(self, root: str = "#content") -> list[str]:
        """Texts whose contrast is below 4.5 to 1."""
        found: list[str] = self.run(_PALE_TEXTS, root)
        return found


@contextmanager
def open_browser(
    running: Chromium, base_url: str, pictures: Path, language: str = "en", looks: str = "light"
) -> Iterator[Operator]:
    """A browser that remembers nothing, set to ``language`` ("en" or "zh") and ``looks`` ("light" or "dark")."""
    heard: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            heard.append(f"{message.location['url']} {message.text}")

    def sit_down() -> Operator:
        context = running.browser.new_context(
            locale=LOCALES[language], color_scheme=looks, viewport={"width": WIDTH, "height": HEIGHT}
        )
        context.set_default_timeout(WAIT_MS)
        context.on("console", hear)
        context.on("weberror", lambda event: heard.append(str(event.error)))
        return Operator(running.thread, context.new_page(), base_url, pictures, heard)

    operator = running.thread.submit(sit_down).result()
    try:
        yield operator
    finally:
        operator.do(lambda page: page.context.close())
