"""Find a Chromium for the browser tests, or install one.

    python tests/browser/chromium.py

Tries in turn: a Chromium that already starts (Playwright's own or the system's), Playwright's
download, and the package of a Debian-like system if the user is its administrator. If none of these
works, ends with status 1 and a message.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Seconds that one attempt may take.
PATIENCE = 300


def launch(playwright):
    """Start Playwright's own Chromium or the system's; None where there is none."""
    from playwright.sync_api import Error

    for path in (None, *filter(None, map(shutil.which, NAMES))):
        try:
            return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error:
            continue
    return None


def starts() -> bool:
    """Whether a browser can be started."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        if browser is not None:
            browser.close()
        return browser is not None


def attempts() -> list[list[str]]:
    """Commands that may install a browser here."""
    commands = [[sys.executable, "-m", "playwright", "install", "chromium-headless-shell"]]
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        commands.append(["apt-get", "update", "-q"])
        commands.append(["apt-get", "install", "-qy", "--no-install-recommends", "chromium"])
    return commands


def main() -> int:
    """Return 0 once a browser starts, 1 where none can be had."""
    if starts():
        return 0
    for command in attempts():
        print("trying:", *command, flush=True)
        try:
            subprocess.run(
                command, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"did not work: {error}", flush=True)
        if starts():
            return 0
    print(
        "No Chromium could be started or installed. Install chromium with your system's package "
        "manager, or run 'playwright install --with-deps chromium' where the network allows it.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
