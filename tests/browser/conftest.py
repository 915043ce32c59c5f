"""A real browser without a window, for pages that open from file://."""

import shutil

import pytest
from selenium import webdriver as selenium


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that opens a page, in a window of a width; at the end nothing may stand in the console."""

    def open_text(text, width=1400, case=""):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        browser.set_window_size(width, 1000)
        browser.get("about:blank")
        browser.get(path.as_uri() + (f"#{case}" if case else ""))
        return browser

    yield open_text
    assert browser.get_log("browser") == []


@pytest.fixture(scope="session")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "the browser's tests need chromium and chromedriver: `make browser` installs them on Debian"
    assert driver, "chromium is here, its chromedriver is not"
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield opened
    opened.quit()
