"""A person at a real browser, and what such a person would notice."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.urls import reverse

from tests.stack import wait_until

webdriver = pytest.importorskip("selenium.webdriver")
By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

NEEDS_BROWSER = pytest.mark.skipif(
    not shutil.which("chromedriver"), reason="needs Debian's chromium and chromium-driver"
)

WAIT_S = 40.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
)

# WCAG 2: contrast of text that is shown against the first background behind it that is not transparent.
_PALE_TEXTS = """
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
return [...document.querySelectorAll(arguments[0] + ' *')].filter((element) => {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility()) return false;
  const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
}).map((element) => element.textContent.trim());
"""


@dataclass
class Operator:
    """A person at a browser."""

    driver: Any
    base_url: str
    pictures: Path

    def open(self, page: str, *args: object) -> None:
        self.driver.get(self.base_url + reverse(page, args=list(args)))

    def login(self, password: str, username: str = "admin") -> None:
        self.open("admin:index")
        self.driver.find_element(By.NAME, "username").send_keys(username)
        self.driver.find_element(By.NAME, "password").send_keys(password)
        self.driver.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        self.wait_for("#content")

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def wait_for(self, selector: str) -> None:
        self._wait(lambda: self.driver.find_elements(By.CSS_SELECTOR, selector), selector)

    def wait_for_text(self, selector: str, text: str) -> None:
        script = "return [...document.querySelectorAll(arguments[0])].some(e => e.textContent.includes(arguments[1]))"
        self._wait(lambda: self.driver.execute_script(script, selector, text), f"{selector} with {text!r}")

    def _wait(self, what: Callable[[], Any], name: str) -> None:
        try:
            wait_until(what, WAIT_S, name)
        except AssertionError as error:
            self.picture("missed")
            shown = self.driver.execute_script("return document.body ? document.body.innerText : ''")
            said = f"the browser says {self.complaints()} at {self.driver.current_url}, which shows {shown[:500]!r}"
            raise AssertionError(f"never seen: {name}; {said}") from error

    def press(self, key: str) -> None:
        self.driver.switch_to.active_element.send_keys(key)

    def focused(self) -> Any:
        return self.driver.switch_to.active_element

    def picture(self, name: str, *, whole: bool = False) -> None:
        if whole:
            height = self.driver.execute_script("return document.getElementById('content').scrollHeight + 320")
            self.driver.set_window_size(1400, max(1000, height))
        self.driver.save_screenshot(str(self.pictures / f"{name}.png"))

    def hosts(self) -> set[str]:
        script = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        return {urlsplit(name).netloc for name in self.driver.execute_script(script) if name.startswith("http")}

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def pale_texts(self, root: str = "#content") -> list[str]:
        """Texts whose contrast is below 4.5 to 1."""
        found: list[str] = self.driver.execute_script(_PALE_TEXTS, root)
        return found


@contextmanager
def open_browser(base_url: str, pictures: Path, language: str = "en", looks: str = "light") -> Iterator[Operator]:
    """A browser set to ``language`` ("en" or "zh") and ``looks`` ("light" or "dark")."""
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"intl.accept_languages": {"en": "en", "zh": "zh-CN,zh"}[language]})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    features = [{"name": "prefers-color-scheme", "value": looks}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield Operator(driver, base_url, pictures)
    finally:
        driver.quit()
