"""What tests of every page do: look for elements, and show the page on a phone or in the dark."""

from contextlib import contextmanager

BY_CSS = "css selector"


def all_of(browser, selector):
    return browser.find_elements(BY_CSS, selector)


def on_phone(browser):
    """Show the page on a screen that is 400 pixels wide."""
    return on_screen(browser, 400, is_mobile=True)


@contextmanager
def on_screen(browser, width, *, is_mobile=False):
    """Show the page on a screen of a width in pixels."""
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": is_mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def in_the_dark(browser):
    """Show the page to a reader who prefers dark colours."""
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@contextmanager
def on_paper(browser, *, prefers_dark=False):
    """Show the page as a printer gets it, to a reader who may prefer dark colours on screens."""
    features = [{"name": "prefers-color-scheme", "value": "dark"}] if prefers_dark else []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
