"""The report in a real browser: no errors, values at the pointer, everything works by keyboard."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dbdl
from dbdl import DBDLClassifier
from dbdl.experiments.spec import load_table
from dbdl.experiments.summary import summarise
from dbdl.report import write_report, write_results

SCREENSHOTS = Path(os.environ.get("DBDL_SCREENSHOTS", "browser_output"))
#: Roles and elements that a person can act on.
CONTROLS = "a[href], button, select, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Addresses of the reports that are looked at."""
    folder = tmp_path_factory.mktemp("reports")
    X, y = load_digits(n_class=5, return_X_y=True)
    model = DBDLClassifier(n_sweeps=6, n_chains=2, random_state=0).fit(X[:100], y[:100])
    y_test = y[100:300].copy()
    y_test[:6] = (y_test[:6] + 1) % 5  # some mistakes to look at
    images = write_report(
        model, X[100:300], y_test, folder / "images.html", image_shape=(8, 8),
        title="Digits of scikit-learn",
    )  # fmt: skip
    curves = write_report(model, X[100:300], y_test, folder / "curves.html", title="Curves")
    table = load_table("yaleb")
    column = next(iter(table.columns))
    records = [
        {"table": "yaleb", "column": column, "method": method, "settings": "{}", "split": split,
         "accuracy": accuracy + split / 500, "fit_seconds": 1.0, "query_milliseconds": 0.1,
         "log_loss": 0.1, "calibration_error": 0.01, "n_atoms": 600, "coder": "F14m",
         "best_coder": "O28", "best_accuracy": accuracy, "n_train": 120, "n_test": 40,
         "majority": {"accuracy": 0.03}, "command": "dbdl reproduce yaleb", "file": "yaleb"}
        for method, accuracy in [("DBDL", 0.98), ("SRC", 0.96), ("LC-KSVD2", 0.95), ("CRC", 0.97)]
        for split in range(3)
    ]  # fmt: skip
    found = summarise(table, records)
    results = write_results(table, found, folder / "results.html", records=records)
    many = write_many_classes(folder / "many.html")
    crc = dbdl.methods()["CRC"]().fit(X[:100], y[:100])
    rival = write_report(crc, X[100:300], y_test, folder / "rival.html", image_shape=(8, 8))
    return {path.stem: path.as_uri() for path in (images, curves, results, many, rival)}


def write_many_classes(path):
    """A report on more classes than fit on a telephone, with names of any length."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(36), 6)
    X = rng.normal(size=(36, 12))[y] + 0.1 * rng.normal(size=(len(y), 12))
    model = DBDLClassifier(n_sweeps=2, n_chains=1, random_state=0).fit(X[::2], y[::2])
    return write_report(model, X[1::2], y[1::2], path, class_names={1: "a class " * 9})


@pytest.fixture
def open_page(browser, pages):
    """Open a report; what it says on the console, or asks of the network, fails the test."""
    opened, complaints = [], []

    def start(name, **options):
        page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}, **options})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else complaints.append(r.url),
        )
        page.goto(pages[name])
        opened.append(page)
        return page

    yield start
    for page in opened:
        page.close()
    assert not complaints


every_page = pytest.mark.parametrize("name", ["images", "curves", "results", "many", "rival"])
every_scheme = pytest.mark.parametrize("scheme", ["light", "dark"])
every_width = pytest.mark.parametrize("width", [1400, 390])  # a desk and a telephone


@every_page
@every_scheme
@every_width
def test_a_page_opens_without_a_complaint_and_is_photographed(open_page, name, scheme, width):
    page = open_page(name, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.wait_for_timeout(100)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}_{width}_{scheme}.png", full_page=True)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([int(value) for value in re.findall(r"\d+", ground)[:3]])
    assert (brightness > 128) == (scheme == "light")


@every_page
@every_width
def test_no_page_is_wider_than_its_window(open_page, name, width):
    page = open_page(name, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@every_page
@every_scheme
def test_text_stands_out_from_its_ground(open_page, name, scheme):
    page = open_page(name, color_scheme=scheme)
    ratios = page.evaluate(
        """() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map((v) => {
              v /= 255;
              return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ground = (e) => {
            for (; e; e = e.parentElement) {
              const colour = getComputedStyle(e).backgroundColor;
              if (!/, 0\\)$|\\/ 0/.test(colour)) return colour;
            }
          };
          return [...document.querySelectorAll("p, th, td, a, h1, h2, h3, summary, dt, strong")]
            .filter((e) => e.offsetParent && e.textContent.trim() && !e.closest(".atom"))
            .map((e) => {
              const pair = [light(getComputedStyle(e).color), light(ground(e))].sort();
              return [(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), e.textContent];
            });
        }"""
    )
    assert min(ratios)[0] >= 4.5, min(ratios)  # level AA of the web's guidelines


def test_pointing_at_the_selection_probabilities_shows_the_models_value(open_page):
    page = open_page("images")
    plot = page.locator("[data-heat=selection] .heat-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 1.5, box["y"] + box["height"] / 10)
    shown = page.locator("[data-heat=selection] .readout").inner_text()
    # the first atom of the first class: the most probable of those that the class uses most
    expected = page.evaluate(
        "() => { const d = JSON.parse(document.getElementById('data').textContent);"
        "return [d.selection.order[0], d.atoms[d.selection.order[0]].p]; }"
    )
    found = re.search(r"class 0, atom (\d+): probability ([\d.]+)", shown)
    assert int(found.group(1)) == expected[0]
    assert float(found.group(2)) == pytest.approx(expected[1], abs=1e-3)
    assert found.group(0) in page.locator("#tip").inner_text()
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_pointing_at_confusions_dots_and_sweeps_shows_values(open_page):
    page = open_page("images")
    plot = page.locator("[data-heat=confusion] .heat-plot")
    plot.hover(position={"x": 3, "y": 3})
    assert re.search(
        r"0: \d+ of \d+ classified correctly",
        page.locator("[data-heat=confusion] .readout").inner_text(),
    )
    page.locator("#accuracy circle.dot").first.hover()
    assert re.fullmatch(r"\d: \d+\.\d %", page.locator("#tip").inner_text())
    chart = page.locator("[data-chart='0']")
    chart.locator("svg").hover(position={"x": 65, "y": 50})
    assert re.match(r"sweep 0: 135; 135", chart.locator(".readout").inner_text())


def test_the_arrow_keys_read_the_heat_map(open_page):
    page = open_page("images")
    page.locator("[data-heat=selection] .heat-plot").focus()
    readout = page.locator("[data-heat=selection] .readout")
    first = readout.inner_text()
    assert first.startswith("class 0")
    page.keyboard.press("ArrowDown")
    assert readout.inner_text().startswith("class 1")
    page.keyboard.press("ArrowRight")
    assert readout.inner_text().split(",")[1] != first.split(",")[1]
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")  # stays at the end
    assert readout.inner_text().startswith("class 1")


def test_the_arrow_keys_read_a_chart(open_page):
    page = open_page("images")
    chart = page.locator("[data-chart='0']")
    chart.focus()
    page.keyboard.press("Home")
    assert chart.locator(".readout").inner_text().startswith("sweep 0:")
    page.keyboard.press("ArrowRight")
    assert chart.locator(".readout").inner_text().startswith("sweep 1:")


@every_page
def test_the_tab_key_reaches_every_control_and_shows_where_it_is(open_page, name):
    page = open_page(name)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait_for_timeout(100)  # folds tell that they opened in a task of their own
    page.evaluate(
        """(controls) => {
          const shown = (e) => e.offsetParent !== null || e.classList.contains("skip");
          [...document.querySelectorAll(controls)].filter(shown).forEach((e, i) => {
            if (e.tabIndex >= 0) e.dataset.control = i;
          });
        }""",
        CONTROLS,
    )
    wanted = set(
        page.evaluate(
            "[...document.querySelectorAll('[data-control]')].map((e) => e.dataset.control)"
        )
    )
    reached = set()
    for _ in range(len(wanted) + 5):
        page.keyboard.press("Tab")
        now = page.evaluate(
            "() => { const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.dataset.control ?? null, s.outlineStyle, parseFloat(s.outlineWidth)]; }"
        )
        if now[0] is not None:
            reached.add(now[0])
            assert now[1] != "none" and now[2] >= 2
    assert reached == wanted and len(wanted) > 5


def test_tables_that_scroll_and_only_those_are_stops_of_the_tab_key(open_page):
    page = open_page("many")
    page.locator("#accuracy summary").click()
    table = page.locator("#accuracy .scroll")
    table.and_(page.locator("[tabindex='0']")).wait_for()
    assert table.evaluate("e => e.scrollTop") == 0
    table.focus()
    page.keyboard.press("End")
    page.wait_for_timeout(600)  # scrolling is smooth
    assert table.evaluate("e => e.scrollTop") > 0
    assert page.locator("#calibration .scroll[tabindex]").count() == 0


def test_atoms_are_one_stop_and_the_arrows_choose_among_them(open_page):
    page = open_page("images")
    assert page.locator(".atom[tabindex='0']").count() == 1
    page.locator(".atom[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    chosen = page.locator(".atom[aria-current=true]")
    assert chosen.count() == 1
    number = chosen.get_attribute("data-atom")
    assert page.locator("#atom-detail h3").inner_text() == f"Atom {number}"
    page.keyboard.press("ArrowDown")
    assert page.locator(".atom[aria-current=true]").get_attribute("data-atom") != number


def test_atoms_are_filtered_by_class_and_sorted(open_page):
    page = open_page("images")
    n_all = page.locator(".atom").count()
    page.locator("#atom-class").select_option("2")
    shown = page.locator(".atom:not([hidden])")
    assert 0 < shown.count() < n_all
    labels = [shown.nth(i).get_attribute("aria-label") for i in range(shown.count())]
    assert all("class 2," in label for label in labels)
    page.locator("#atom-class").select_option("")
    page.locator("#atom-order").select_option("probability")
    labels = page.eval_on_selector_all(".atom", "e => e.map((x) => x.ariaLabel)")
    values = [float(label.split()[-1]) for label in labels]
    assert values == sorted(values, reverse=True)
    page.locator("#atom-order").select_option("number")
    numbers = page.eval_on_selector_all(".atom", "e => e.map((x) => Number(x.dataset.atom))")
    assert numbers == sorted(numbers)


def test_tables_are_sorted_by_their_headings(open_page):
    page = open_page("results")
    heading = page.locator("th button", has_text="accuracy %").first
    column = "e => e.map((r) => parseFloat(r.cells[1].dataset.value))"
    heading.focus()
    page.keyboard.press("Enter")
    values = page.eval_on_selector_all("#column-0 tbody tr", column)
    assert values == sorted(values) and len(values) == 5
    page.keyboard.press("Enter")
    assert page.eval_on_selector_all("#column-0 tbody tr", column) == sorted(values, reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("accuracy")


def test_the_switch_changes_the_theme_whatever_the_system_says(open_page):
    page = open_page("images", color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    switch = page.locator("#theme")
    switch.click()
    assert switch.inner_text() == "Theme: light" and page.evaluate(ground) != dark
    switch.click()
    assert switch.inner_text() == "Theme: dark" and page.evaluate(ground) == dark


def test_paper_is_white_and_has_neither_folded_tables_nor_controls(open_page):
    page = open_page("images", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 35, 41)"
    assert page.locator("nav").is_hidden() and page.locator(".save").first.is_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    on_paper = page.locator("details:visible")
    assert on_paper.count() == 3 and page.locator("details:visible:not([open])").count() == 0
    assert page.locator(".paper-only").is_visible()


@every_page
def test_a_page_has_at_most_six_sheets_of_paper(open_page, name):
    page = open_page(name)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.pdf"
    margin = dict.fromkeys(("top", "bottom", "left", "right"), "12mm")
    page.pdf(path=path, format="A4", margin=margin)
    n_sheets = len(re.findall(rb"/Type\s*/Page\b(?!s)", path.read_bytes()))
    assert 1 <= n_sheets <= 6


@every_page
@every_width
def test_labels_of_charts_have_at_least_ten_pixels(open_page, name, width):
    page = open_page(name, viewport={"width": width, "height": 800})
    sizes = page.evaluate(
        """() => [...document.querySelectorAll("svg text")]
          .filter((e) => e.getBoundingClientRect().width > 0)
          .map((e) => {
            const svg = e.ownerSVGElement;
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
            return [scale * parseFloat(getComputedStyle(e).fontSize), e.textContent];
          })"""
    )
    assert len(sizes) > 5 and min(sizes)[0] >= 10, min(sizes)


def test_a_table_that_is_cut_off_says_so_until_its_end_is_in_view(open_page):
    page = open_page("results", viewport={"width": 390, "height": 800})
    box = page.locator("#column-0 .scroll-box")
    hint = box.locator(".scroll-hint")
    assert hint.is_visible() and "more columns" in hint.inner_text()
    assert box.evaluate("e => getComputedStyle(e, '::after').content") == '""'
    box.locator(".scroll").evaluate("e => { e.scrollLeft = e.scrollWidth; }")
    page.wait_for_timeout(200)
    assert hint.is_hidden()
    first = box.locator("tbody th").first  # the names of the methods stay in view
    assert first.bounding_box()["x"] >= 0
    wide = open_page("results", viewport={"width": 1400, "height": 800})
    assert wide.locator(".scroll-hint:visible").count() == 0


def test_the_tables_of_results_are_files_inside_the_page(open_page):
    page = open_page("results")
    links = page.locator(".downloads a")
    assert [links.nth(i).get_attribute("download") for i in range(2)] == [
        "yaleb-means.csv", "yaleb-splits.csv",
    ]  # fmt: skip
    with page.expect_download() as download:
        links.first.click()
    text = Path(download.value.path()).read_text("utf-8")
    assert text.startswith("method,splits,accuracy %") and "DBDL,3,98.2," in text


def test_the_tables_of_a_report_can_be_saved(open_page):
    page = open_page("images")
    with page.expect_download() as download:
        page.locator("#calibration .save").click()
    lines = Path(download.value.path()).read_text("utf-8").splitlines()
    assert download.value.suggested_filename == "confidence-and-accuracy.csv"
    assert lines[0].startswith("highest probability %,rows") and len(lines) > 2


def test_our_method_is_marked_and_the_headline_comes_first(open_page):
    page = open_page("results")
    assert page.locator("tr.ours th").first.inner_text() == "DBDL"
    assert page.locator("g.ours text:visible").text_content() == "DBDL"
    said = page.locator(".headline").inner_text()
    assert said.startswith("DBDL") and "on this data" in said
    assert page.locator("#again code").first.inner_text() == "dbdl reproduce yaleb"


@every_page
def test_no_page_is_wider_than_a_sheet_of_paper(open_page, name):
    page = open_page(name, viewport={"width": 680, "height": 960})  # A4 with margins of 1.5 cm
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 680


def test_without_scripts_the_page_can_still_be_read(browser, pages):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(pages["images"])
    assert page.locator(".card strong").first.is_visible()
    assert page.locator(".atom").first.is_visible()
    assert page.locator("#theme").is_hidden()
    page.close()
