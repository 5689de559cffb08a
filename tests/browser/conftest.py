"""A headless Chromium for the tests of this folder, which are skipped without one.

`make test-browser` installs what is needed and sets DBDL_NEEDS_BROWSER, which makes a missing
browser a failure.
"""

import os

import pytest
from chromium import launch


def absent(reason):
    if os.environ.get("DBDL_NEEDS_BROWSER"):
        pytest.fail(reason)
    pytest.skip(f"{reason}: run make test-browser")


@pytest.fixture(scope="session")
def browser():
    """Playwright's own Chromium, or the system's."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("needs playwright")
    with sync_playwright() as playwright:
        started = launch(playwright)
        if started is None:
            absent("needs a Chromium")
        yield started
        started.close()
