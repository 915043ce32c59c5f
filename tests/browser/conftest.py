"""A real browser without a window, for pages that open from file://."""

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    selenium = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("there is no chromium with its chromedriver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield opened
    opened.quit()
