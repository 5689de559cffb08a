"""A report is one whole HTML file that fetches nothing and says what the model is."""

from __future__ import annotations

import base64
import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from report_problem import digits, fitted, with_mistakes
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from dbdl import DBDLClassifier
from dbdl.coding import Forward
from dbdl.plotting.pictures import draw_rows
from dbdl.registry import methods
from dbdl.report import identity_of, write_explanation, write_report
from dbdl.report.charts import Scale, round_steps, tick_label
from dbdl.report.explain import choose_samples, explain
from dbdl.report.findings import examine
from dbdl.views import AUTOMATIC_LINEAR

VOID = {"meta", "link", "img", "br", "line", "rect", "circle", "polyline", "path", "input"}


class Page(HTMLParser):
    """Collects elements, and fails where they are not closed in order."""

    def __init__(self, source):
        super().__init__()
        self.source, self.open, self.elements, self.words = source, [], [], []
        self.feed(source)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else, line {self.getpos()}"

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self):
        found = re.search(r'id="data">(.*?)</script>', self.source, re.DOTALL)
        return json.loads(found.group(1))


def page_of(model, X, y, tmp_path, **options):
    path = write_report(model, X, y, tmp_path / "report.html", **options)
    return Page(path.read_text(encoding="utf-8"))


def report(tmp_path, n_classes=4, n_chains=2, **options):
    _, _, X, y = digits(n_classes)
    path = tmp_path / "report.html"
    options = {"image_shape": (8, 8), **options}
    assert write_report(fitted(n_classes, n_chains), X, with_mistakes(y), path, **options) == path
    return Page(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("image_shape", [(8, 8), None], ids=["images", "curves"])
@pytest.mark.parametrize("n_classes, n_chains", [(4, 2), (2, 1)])
def test_elements_are_closed_ids_are_unique_and_links_lead_somewhere(
    tmp_path, image_shape, n_classes, n_chains
):
    page = report(tmp_path, n_classes, n_chains, image_shape=image_shape)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    assert {a["href"][1:] for a in page.all("a") if a["href"][0] == "#"} <= set(ids)
    for _, attributes in page.elements:
        assert attributes.get("aria-labelledby", ids[0]) in ids


def test_nothing_is_fetched(tmp_path):
    page = report(tmp_path)
    for _, attributes in page.elements:
        for name in ("src", "href", "data", "srcset", "action"):
            assert attributes.get(name, "data:").startswith(("data:", "#"))
    assert "@import" not in page.source
    assert all(url.startswith("data:") for url in re.findall(r"url\((.{5})", page.source))


def test_every_picture_and_control_has_words_for_it(tmp_path):
    page = report(tmp_path)
    for tag, attributes in page.elements:
        if tag == "img":
            assert attributes["alt"]
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"
        if attributes.get("role") in ("img", "application", "group", "region"):
            assert attributes["aria-label"]
    assert page.source.count("<label>") == len(page.all("select"))
    assert len(page.all("caption")) == len(page.all("table"))


def test_accuracy_is_on_the_page(tmp_path):
    _, _, X, y = digits()
    accuracy = np.mean(fitted().predict(X) == with_mistakes(y))
    assert f"{100 * accuracy:.2f} %" in report(tmp_path).text


def test_every_atom_of_the_first_chain_is_there_with_its_class(tmp_path):
    page = report(tmp_path, class_names=["zero", "one", "two", "three"])
    chain = fitted().chains_[0]
    shown = [a for a in page.all("button") if "data-atom" in a]
    assert sorted(int(a["data-atom"]) for a in shown) == list(range(len(chain.atoms)))
    owner = chain.selection_probability.argmax(axis=0)
    names = np.array(["zero", "one", "two", "three"])[owner]
    for attributes in shown:
        assert f"class {names[int(attributes['data-atom'])]}" in attributes["aria-label"]
    assert [atom["c"] for atom in page.data["atoms"]] == owner.tolist()


def test_the_most_probable_atoms_are_shown_where_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr("dbdl.report.atoms.MOST_ATOMS", 10)
    page = report(tmp_path)
    shown = {int(a["data-atom"]) for a in page.all("button") if "data-atom" in a}
    largest = fitted().chains_[0].selection_probability.max(axis=0)
    assert len(shown) == 10
    assert min(largest[k] for k in shown) >= max(p for k, p in enumerate(largest) if k not in shown)
    assert "The 10 most probable of" in page.text


def test_the_packed_probabilities_are_the_models(tmp_path):
    packed = report(tmp_path).data["selection"]
    probability = fitted().chains_[0].selection_probability
    values = np.frombuffer(base64.b64decode(packed["values"]), "<u2").reshape(4, -1) / 65535
    np.testing.assert_allclose(values, probability[:, packed["order"]], atol=1e-5)


def test_features_are_named_where_they_are_no_pixels(tmp_path):
    names = [f"band <{j}>" for j in range(64)]
    page = report(tmp_path, image_shape=None, feature_names=names)
    atom = fitted().chains_[0].restored_atoms[0]
    assert page.data["atoms"][0]["f"][0].startswith(names[np.abs(atom).argmax()])


def test_names_cannot_bring_markup_into_the_page(tmp_path):
    nasty = '</script><script>alert("x")</script><b onclick="y">&'
    page = report(
        tmp_path, class_names=[nasty, "b", "c", "d"], title=nasty, image_shape=None,
        feature_names=[nasty] * 64,
    )  # fmt: skip
    escaped = ("&lt;script&gt;alert(&#34;x", "\\u003cscript\\u003ealert(")
    assert page.source.count("alert(") == sum(map(page.source.count, escaped)) > 2
    assert len(page.all("script")) == 2
    assert not any("onclick" in attributes for _, attributes in page.elements)
    assert page.data["names"][0] == nasty


def test_splits_show_their_spread(tmp_path):
    assert "95.00 ± 1.00 %" in report(tmp_path, split_accuracy=[0.94, 0.95, 0.96]).text


def test_the_number_of_atoms_is_said_to_be_that_of_the_rows_drawn(tmp_path):
    page, chains = report(tmp_path), fitted().chains_
    drawn = chains[0].n_initial_atoms
    assert f"from {drawn} training rows drawn; copies are left out" in page.text
    first = sorted({int(chain.trace.n_atoms[0]) for chain in chains})
    assert f"which leaves {' to '.join(map(str, first))}." in page.text
    assert "it is not inferred" in page.text
    assert "left of" not in page.text and "no row needs" not in page.text


@pytest.mark.parametrize(
    ("unlearned", "said"), [(0.5, "learning and views add"), (1.0, "views add nothing here")]
)
def test_the_page_says_what_learning_adds_where_it_is_told(tmp_path, unlearned, said):
    page = report(tmp_path, unlearned_accuracy=unlearned)
    assert f"Without learning {100 * unlearned:.2f} %" in page.text and said in page.text
    assert "Without learning" not in report(tmp_path).text


def test_a_coder_that_was_given_is_not_said_to_be_chosen(tmp_path):
    X, y, X_test, y_test = digits()
    model = DBDLClassifier(n_sweeps=2, n_chains=1, random_state=0, coder=Forward(5)).fit(X, y)
    page = page_of(model, X_test, y_test, tmp_path)
    left_out = "Each chain left out some of the training rows, which chose"
    assert f"Given: 5 non-zeros, forward pursuit. {left_out} the temperature," in page.text
    both = f"{left_out} the coders, the weights and the temperature,"
    assert both in report(tmp_path).text and "Given:" not in report(tmp_path).text
    paper = DBDLClassifier.paper(5, n_sweeps=2, random_state=0).fit(X, y)
    page = page_of(paper, X_test, y_test, tmp_path)
    said = "No training row was left out: 5 non-zeros, orthogonal pursuit, temperature 1."
    assert said in page.text and left_out not in page.text


def cells_of(page, section):
    """The texts of the first table of a section, row by row."""
    part = page.source.split(f'<section id="{section}"')[1].split("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", part.split("<tbody>")[1], re.DOTALL)
    return [[unescape(c) for c in re.findall(r">([^<>]+)</t[hd]>", row)] for row in rows]


def test_every_view_is_there_with_its_coder_weight_and_held_out_loss(tmp_path):
    model = fitted(n_chains=15)
    names = list(dict.fromkeys(chain.view.name for chain in model.chains_))
    assert 5 < len(names) < 15
    _, _, X, y = digits()
    page = page_of(model, X, y, tmp_path)
    held_out, lines = model.held_out_, cells_of(page, "views")
    assert [line[0] for line in lines] == names
    n_views = len(names)
    assert [line[1] for line in lines] == [str(1 + (j + n_views < 15)) for j in range(n_views)]
    for number, (line, chain) in enumerate(zip(lines, model.chains_, strict=False)):
        weight = sum(other.weight for other in model.chains_[number::n_views])
        loss = held_out.view_log_loss[number, held_out.coders.index(chain.coder)]
        said = f"{chain.coder.n_nonzero} non-zeros, {chain.coder}"
        assert [line[2], line[3], line[5]] == [f"{100 * weight:.1f}", f"{loss:.3f}", said]
    assert f"{100 * held_out.ensemble_accuracy:.1f} % correct, log-loss" in page.text
    assert f"of chain 1 of 15, which sees the rows through the view “{names[0]}”" in page.text


def test_many_chains_are_summed_up_and_have_few_kinds_of_lines(tmp_path):
    _, _, X, y = digits()
    n_views = len(AUTOMATIC_LINEAR)
    model = fitted(n_chains=3 * n_views, coder=Forward(3), views=AUTOMATIC_LINEAR)
    page = page_of(model, X, y, tmp_path)
    lines = [a["class"] for a in page.all("polyline")]
    assert len(lines) == 6 * 3 * n_views and len(set(lines)) == n_views
    assert lines[:n_views] == lines[n_views : 2 * n_views]
    assert all(f".{kind.split()[1]} {{" in page.source for kind in set(lines[1:n_views]))
    texts = page.data["charts"][0]["texts"]
    assert re.fullmatch(r"\d+ to \d+, median [\d.]+", texts[-1])
    keys = page.source.split('<ul class="keys">')[1].split("</ul>")[0]
    assert keys.count("<li>") == n_views
    assert len(page.source) < 5e5


def test_chains_of_one_view_have_a_line_each(tmp_path):
    _, _, X, y = digits()
    page = page_of(fitted(n_chains=3, views="plain"), X, y, tmp_path)
    assert len({a["class"] for a in page.all("polyline")}) == 3
    assert "chain 3" in page.source.split('<ul class="keys">')[1].split("</ul>")[0]
    assert page.data["charts"][0]["texts"][0].count(";") == 2


def test_atoms_are_drawn_in_the_space_of_the_rows(tmp_path, monkeypatch):
    drawn = []

    def draw(rows, **options):
        drawn.append(rows)
        return draw_rows(rows, **options)

    monkeypatch.setattr("dbdl.report.page.draw_rows", draw)
    report(tmp_path)
    gallery, *_ = drawn
    atoms = fitted().chains_[0].restored_atoms
    assert gallery.shape == atoms.shape == (len(atoms), 64)
    cosines = gallery @ (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).T
    np.testing.assert_allclose(cosines.max(axis=1), 1.0, rtol=1e-6)


def test_sizes_that_were_tried_are_listed_where_one_was_chosen(tmp_path):
    _, _, X, y = digits()
    model = fitted(n_initial_atoms="auto", coder=Forward(3))
    page, curve = page_of(model, X, y, tmp_path), model.size_curve_
    tried = cells_of(page, "sweeps")
    assert [line[0] for line in tried] == [f"{n:.0f}" for n in curve.n_atoms]
    assert [line[1] for line in tried] == [f"{100 * share:.2f}" for share in curve.accuracy]
    assert [k for k, line in enumerate(tried) if "chosen" in line] == [curve.chosen]
    assert "Sizes that were tried" not in report(tmp_path).text


@pytest.mark.parametrize("image_shape", [(8, 8), None], ids=["images", "curves"])
def test_atoms_of_a_view_without_a_way_back_are_left_blank(tmp_path, image_shape):
    X, y, X_test, y_test = digits()
    views = [Nystroem(n_components=9, random_state=0), "plain"]
    model = DBDLClassifier(n_sweeps=2, n_chains=2, views=views, random_state=0).fit(X, y)
    page = page_of(model, X_test, y_test, tmp_path, image_shape=image_shape)
    assert "left blank, because this view has no way back" in page.text
    names = [line[0] for line in cells_of(page, "views")]
    assert names == ["Nystroem(n_components=9, random_state=0)", "plain"]


def test_pipelines_are_looked_through(tmp_path):
    X, y, X_test, y_test = digits()
    model = make_pipeline(Normalizer(), DBDLClassifier(n_sweeps=2, n_chains=1, random_state=0))
    path = write_report(model.fit(X, y), X_test, y_test, tmp_path / "report.html")
    accuracy = model.score(X_test, y_test)
    assert f"{100 * accuracy:.2f} %" in Page(path.read_text(encoding="utf-8")).text


def test_a_class_without_test_rows_is_left_out_of_the_spread(tmp_path):
    _, _, X, y = digits()
    path = write_report(fitted(), X[y > 0], y[y > 0], tmp_path / "report.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert "nan" not in page.text.lower().split()


def test_wrong_arguments_are_refused_and_nothing_is_written(tmp_path):
    X, y, X_test, y_test = digits()
    path = tmp_path / "report.html"
    with pytest.raises(ValueError, match=r"\(8, 9\) does not fit 64 features"):
        write_report(fitted(), X_test, y_test, path, image_shape=(8, 9))
    with pytest.raises(TypeError, match=r"needs a classifier.*StandardScaler"):
        write_report(StandardScaler().fit(X, y), X_test, y_test, path)
    with pytest.raises(ValueError, match="feature_names has 3 names"):
        write_report(fitted(), X_test, y_test, path, feature_names=list("abc"))
    with pytest.raises(ValueError, match="order='K' is unknown"):
        write_report(fitted(), X_test, y_test, path, image_shape=(8, 8), order="K")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_report(fitted(), X_test, y_test, tmp_path / "no" / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["CRC", "K-SVD", "ridge", "1-NN"])
def test_a_page_on_a_rival_shows_what_it_can(tmp_path, name):
    X, y, X_test, y_test = digits()
    model = methods()[name]().fit(X, y)
    page = page_of(model, X_test, y_test, tmp_path, image_shape=(8, 8))
    right = int((model.predict(X_test) == y_test).sum())
    assert f"{name} is right for {right} of {len(y_test)} test rows" in page.text
    assert methods()[name].in_a_line[1:] in page.text and methods()[name].paper in page.text
    assert ("Can the probabilities be trusted?" in page.text) == hasattr(model, "predict_proba")
    atoms = [a for a in page.all("div") if a.get("class", "").startswith("atom ")]
    shown = getattr(model, "n_atoms_", 0)
    assert ("The atoms" in page.text) == (shown > 0)
    assert page.source.count('aria-label="atom ') == shown and len(atoms) <= shown
    links = {a["href"][1:] for a in page.all("a") if a["href"][0] == "#"}
    assert links <= {a["id"] for _, a in page.elements if "id" in a}
    assert "nan" not in page.text.lower().split()


def test_a_page_says_how_it_can_be_written_again_and_keeps_its_identity(tmp_path):
    origin = {"command": "dbdl report <m>", "file": "my.csv", "seed": "7"}
    page = report(tmp_path, origin=origin, identity="abc123")
    assert "dbdl report <m>" in page.text and "Data my.csv" in page.text and "Seed 7" in page.text
    assert identity_of(tmp_path / "report.html") == "abc123"
    report(tmp_path)
    assert identity_of(tmp_path / "report.html") == "" == identity_of(tmp_path / "none.html")


def test_rows_are_counted_from_one(tmp_path):
    _, _, X, y = digits()
    found = examine(fitted(), X, with_mistakes(y))
    first = choose_samples(found)[0][0]
    assert f"Row {first + 1}: predicted" in report(tmp_path).text


def test_rows_may_have_names(tmp_path):
    _, _, X, y = digits()
    first = choose_samples(examine(fitted(), X, with_mistakes(y)))[0][0]
    names = [f"Image {i}.png" for i in range(len(y))]
    page = report(tmp_path, row_names=names)
    assert f"{names[first]}: predicted" in page.text and "Row " not in page.text
    with pytest.raises(ValueError, match="row_names has 1 names, but there are"):
        report(tmp_path, row_names=["one"])


def test_an_atom_has_the_number_that_it_has_in_python_on_every_page(tmp_path):
    model, (_, _, X, y) = fitted(), digits()
    page, found = report(tmp_path), examine(model, X, with_mistakes(y))
    (k,) = re.findall(r"from 0, as in Python: atom (\d+) is <code>atoms_\[\1\]", page.source)
    assert f'data-atom="{k}"' in page.source
    e = explain(found, model.selection_probability_, *choose_samples(found)[0])
    later = [part.atom for part in e.atoms if part.atom >= len(model.chains_[0].atoms)]
    assert later and all(f" {k}, chain 2 " in page.text for k in later)
    why = model.explain(X[0])
    text = Page(write_explanation(why, tmp_path / "why.html").read_text(encoding="utf-8")).text
    assert all(f"atom {atom.number} " in text for atom in why.atoms[:3])
    page = page_of(methods()["K-SVD"]().fit(X, y), X, y, tmp_path, image_shape=(8, 8))
    assert 'aria-label="atom 0' in page.source and "<code>atoms_[0]</code>" in page.source


def test_always_naming_the_most_frequent_class_is_the_baseline(tmp_path):
    y = digits()[3]
    share = np.bincount(with_mistakes(y)).max() / len(y)
    page = report(tmp_path)
    said = f"Always naming the most frequent class would be right for {100 * share:.1f} %"
    assert said in page.text


@pytest.mark.slow
def test_the_report_on_yaleb_is_smaller_than_five_megabytes(yaleb, tmp_path):
    X, y = yaleb
    model = DBDLClassifier(n_sweeps=3, n_chains=2, n_nonzero=20, random_state=0)
    model.fit(X[::2], y[::2])
    path = write_report(model, X[1::2], y[1::2], tmp_path / "report.html")
    assert path.stat().st_size < 5e6


# -------------------------------------------------------------------------------------- the scales


@pytest.mark.parametrize(
    "low, high, expected",
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0, 1800, [0, 500, 1000, 1500]), (3, 3, [3])],
)
def test_ticks_are_round(low, high, expected):
    assert round_steps(low, high) == pytest.approx(expected)
    assert not any(str(value).startswith("-") for value in round_steps(low, high))


def test_scales_reach_from_end_to_end():
    for is_log in (False, True):
        scale = Scale(10.0, 1000.0, 200, 20, is_log)
        assert (scale(10.0), scale(1000.0)) == (200, 20)
    assert scale(100.0) == 110
    assert scale.ticks() == [10, 100, 1000]


@pytest.mark.parametrize(
    "value, label",
    [(0, "0"), (1500, "1\u202f500"), (-2.5, "−2.5"), (1e6, "10⁶"), (7.5e6, "7.5·10⁶"),
     (1e-4, "10⁻⁴")],
)  # fmt: skip
def test_labels_of_ticks(value, label):
    assert tick_label(value) == label


def test_the_page_says_what_the_diagnostics_mean_for_predictions(tmp_path):
    X, y, X_test, y_test = digits()
    model = DBDLClassifier(n_sweeps=16, n_chains=2, n_draws=4, random_state=0).fit(X, y)
    page, found = page_of(model, X_test, y_test, tmp_path), model.diagnostics_
    assert f"the largest here is {found.worst_r_hat:.2f}" in page.text
    assert "an ensemble of modes, and not draws from a converged posterior" in page.text
    assert "compares the halves of that chain" in page.text
    table = cells_of(page, "convergence")
    assert [row[:2] for row in table] == [[line.view, line.quantity] for line in found.lines]
    assert "too few sweeps to tell" in report(tmp_path).text


def test_intervals_are_in_the_table_of_selection_where_draws_were_kept(tmp_path):
    X, y, X_test, y_test = digits()
    kept = DBDLClassifier(n_sweeps=8, n_chains=1, n_draws=4, random_state=0).fit(X, y)
    best = int(kept.chains_[0].selection_probability[0].argmax())
    drawn = kept.chains_[0].draws.selection_probability[:, 0, best]
    low, high = np.quantile(drawn, (0.05, 0.95))
    said = f"{best}: {kept.selection_probability_[0, best]:.2f} ({low:.2f} to {high:.2f})"
    page = page_of(kept, X_test, y_test, tmp_path)
    assert said in page.text and "90 % intervals from 4 draws" in page.text
    assert "90 % intervals" not in report(tmp_path).text


def test_decisions_on_tables_name_features(tmp_path):
    _, _, X, y = digits()
    names = [f"pixel {j} of a table" for j in range(64)]
    page = page_of(fitted(), X[:, :], with_mistakes(y), tmp_path, feature_names=names)
    assert "the features that decided between" in page.text
    why = fitted().explain(X[choose_samples(examine(fitted(), X, with_mistakes(y)))[2][0]])
    assert names[why.features[0].number] in page.text
    assert "other features (" in page.text and "the average row" in page.text


def test_zeros_that_rows_are_compared_with_are_not_called_averages(tmp_path):
    X, y, X_test, y_test = digits()
    plain = DBDLClassifier(n_sweeps=2, n_chains=1, views=["plain"], random_state=0).fit(X, y)
    names = [f"pixel {j}" for j in range(64)]
    why = plain.explain(X_test[0])
    one = Page(write_explanation(why, tmp_path / "why.html").read_text(encoding="utf-8"))
    report = page_of(plain, X_test, y_test, tmp_path, feature_names=names)
    for page in (one, report):
        assert "a row of zeros" in page.text and "average row" not in page.text
        assert "average" not in headings_of(page, "feature")
    compared = fitted().explain(X_test[0])
    one = Page(write_explanation(compared, tmp_path / "why.html").read_text(encoding="utf-8"))
    for page in (one, page_of(fitted(), X_test, y_test, tmp_path, feature_names=names)):
        assert "average row" in page.text and "average" in headings_of(page, "feature")


def headings_of(page, first):
    """Headings of the first table whose first column is called so."""
    rows = re.findall(r"<thead><tr>(.*?)</tr></thead>", page.source, re.DOTALL)
    every = [re.findall(r"<th [^>]*>(.*?)</th>", row) for row in rows]
    found = next(headings for headings in every if headings[0] == first)
    body = page.source[page.source.index(f">{first}</th>") :]
    row = re.search(r"<tbody>\s*<tr>(.*?)</tr>", body, re.DOTALL)[1]
    assert row.count("<th") + row.count("<td") == len(found)
    return found


def test_decisions_on_images_have_heat_maps_of_shares(tmp_path):
    page = report(tmp_path, image_shape=(8, 8))
    assert "shares of the pixels: blue for" in page.text
    assert "the features that decided between" not in page.text
    pictures = [a for a in page.all("div") if "sheet-shares" in a.get("class", "")]
    assert len(pictures) == len([a for a in page.all("details") if a.get("class") == "sample"])
