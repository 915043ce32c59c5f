"""A real browser without a window, for pages that open from file://."""

import shutil

import pytest
from selenium import webdriver as selenium


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
