"""What surrounds the package agrees with it: version, workflows, citation, recipe, tools."""

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import pytest

import dbdl
from dbdl._extras import REQUIREMENTS, how_to_install

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: The lines of Windows, whose runners may have no make, and the targets that have them.
WITHOUT_MAKE = {"python -m pip": "$(VENV)/.installed-%", "python -m pytest": "test"}


def tool(name):
    """A module of tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name):
    return (ROOT / name).read_text("utf-8")


def loaded(path):
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    return yaml.safe_load(path.read_text("utf-8"))


def recipe_of(target):
    """Words of the lines that make would run, with any Python, and with "test" for a pattern."""
    variables = dict(re.findall(r"^(\w+) :?\??= (.*)$", MAKEFILE, re.MULTILINE))
    rule = re.search(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    lines = rule[1].replace("$*", "test")
    variables |= {"RUN": "python", "PYTEST_ARGS": ""}
    while (found := re.search(r"\$\((\w+)\)", lines)) is not None:
        lines = lines.replace(found[0], variables[found[1]])
    return [shlex.split(line) for line in lines.splitlines()]


# ------------------------------------------------------------------------------- version


def test_the_version_is_written_once_and_repeated_only_where_a_format_needs_it():
    new_version = tool("new_version")
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    for name, pattern, kind in new_version.PLACES:
        (value,) = re.findall(pattern, read(name), re.MULTILINE)
        if kind == "version":
            assert value == dbdl.__version__, name
        else:
            assert date.fromisoformat(value)


def test_the_changelog_has_the_version_or_its_lines_wait_under_unreleased():
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", read("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    versions = [name for name, day in headings[1:] if date.fromisoformat(day)]
    assert not versions or versions[0] == dbdl.__version__
    numbers = [tuple(map(int, name.split("."))) for name in versions]
    assert numbers == sorted(set(numbers), reverse=True)


def test_a_new_version_turns_unreleased_into_it():
    new_version = tool("new_version")
    names = {new_version.CHANGELOG, *(name for name, _, _ in new_version.PLACES)}
    texts = {name: read(name) for name in names}
    texts["CHANGELOG.md"] = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A line.\n"
    new = new_version.renewed(texts, "7.8.9", date(2027, 1, 31))
    assert "## [Unreleased]\n\n## [7.8.9] - 2027-01-31\n\n### Added\n" in new["CHANGELOG.md"]
    assert '__version__ = "7.8.9"' in new["src/dbdl/__init__.py"]
    assert "version: 7.8.9\n" in new["CITATION.cff"]
    assert 'date-released: "2027-01-31"' in new["CITATION.cff"]
    assert 'version: "7.8.9"' in new["conda-recipe/recipe.yaml"]
    with pytest.raises(SystemExit, match="nothing under"):
        new_version.renewed(new, "7.9.0", date(2027, 2, 1))


# ------------------------------------------------------------------------------- workflows


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_of_workflows_are_make_targets_or_lines_of_one(path):
    targets = re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE)
    for job in loaded(path)["jobs"].values():
        for step in job["steps"]:
            if "run" not in step:
                assert step["uses"].startswith("actions/")
                continue
            words = shlex.split(step["run"])
            if words[0] == "make":
                assert words[1:] and set(words[1:]) <= set(targets), step["run"]
            else:
                assert words in recipe_of(WITHOUT_MAKE[" ".join(words[:3])])


def test_the_workflows_test_every_python_and_system_that_the_package_names():
    named = {c.rpartition(" :: ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c}
    jobs = loaded(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    for job in ("tests", "windows"):
        assert set(jobs[job]["strategy"]["matrix"]["python"]) == named
    assert PROJECT["requires-python"] == f">={min(named, key=lambda name: int(name[2:]))}"
    systems = {*jobs["tests"]["strategy"]["matrix"]["os"], jobs["windows"]["runs-on"]}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_every_make_target_is_phony_and_explained():
    targets = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
    phony = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert targets == set(" ".join(phony).split())
    explained = set(re.findall(r'@echo "make ([\w-]+)', MAKEFILE))
    assert targets - {"help", "test-bits"} <= explained


# ------------------------------------------------------------------------------- packages


def test_the_lowest_versions_are_those_of_the_project():
    lowest = tool("lowest")
    lines = lowest.constraints(PROJECT, ["test"])
    assert len(lines) == len({line.partition("==")[0] for line in lines})
    for line in PROJECT["dependencies"]:
        assert line.replace(">=", "==") in lines
    assert "h5py==3.10" in lines and not any(line.startswith("dbdl") for line in lines)
    assert "None" not in " ".join(lines)


def test_the_conda_recipe_has_the_requirements_of_the_project():
    run = loaded(ROOT / "conda-recipe" / "recipe.yaml")["requirements"]["run"]
    wanted = {line.replace(">=", " >=") for line in PROJECT["dependencies"]}
    found = {line.replace("matplotlib-base", "matplotlib") for line in run}
    assert found - wanted == {"python >=${{ python_min }}"} and wanted <= found


@pytest.mark.parametrize("module", REQUIREMENTS)
def test_advice_on_missing_packages_names_requirements_of_an_extra(module):
    requirement = how_to_install(module).removeprefix("pip install ").strip("'")
    optional = [
        line for extra in ("files", "arviz", "dask", "gpu", "maps") for line in EXTRAS[extra]
    ]
    assert any(re.split(r"[>;~]", line)[0] == requirement for line in optional)


def test_no_text_advises_to_install_extras_of_a_package_that_nobody_has_released():
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    wrong = [path for path in places if re.search(r"pip install '?dbdl\b", path.read_text("utf-8"))]
    assert wrong == []


def test_optional_packages_are_not_imported_with_dbdl():
    # scikit-learn imports pandas where it is installed, and pandas imports pyarrow
    modules = " ".join(set(REQUIREMENTS) - {"pyarrow"})
    code = f"import sys, dbdl, dbdl.cli; assert not set('{modules}'.split()) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


# ------------------------------------------------------------------------------- documents


def test_the_citation_names_the_paper_of_the_readme():
    citation = loaded(ROOT / "CITATION.cff")
    assert citation["license"] == PROJECT["license"]
    paper = citation["preferred-citation"]
    assert paper["doi"] in read("README.md") and paper["doi"] in PROJECT["urls"]["Paper"]


def test_hooks_run_programs_of_the_extra_dev():
    (local,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    packages = {"ruff", "codespell", "pre-commit-hooks"}
    assert packages <= {re.split(r"[>~]", line)[0] for line in EXTRAS["dev"]}
    modules = {"ruff", "codespell_lib", "pre_commit_hooks"}
    for hook in local["hooks"]:
        words = hook["entry"].split()
        assert words[:2] == [".venv/bin/python", "-m"] and words[2].split(".")[0] in modules
        assert find_spec(words[2].split(".")[0]) is None or find_spec(words[2]) is not None


def test_blocks_of_the_readme_that_need_missing_packages_are_known():
    missing = tool("run_readme").missing
    assert missing("import numpy\nfrom dbdl import open_rows") == set()
    assert missing("import no_such_a\ndef f():\n    from no_such_b.c import d") == {
        "no_such_a",
        "no_such_b",
    }


def test_the_benchmark_of_methods_has_one_file_per_solver_and_data_set():
    folder = ROOT / "benchmarks" / "benchopt_supervised_dictionary_learning"
    for kind, base in (("solvers", "class Solver("), ("datasets", "class Dataset(")):
        files = sorted((folder / kind).glob("*.py"))
        assert len(files) >= 4
        names = [re.search(r'^    name = "(.+)"$', f.read_text("utf-8"), re.M)[1] for f in files]
        assert len(set(names)) == len(files)
        assert all(f.read_text("utf-8").count(base) == 1 for f in files)


def test_every_error_of_the_table_of_mutants_finds_its_line():
    from benchmarks.mutants import MUTANTS, ROOT

    package = ROOT / "src" / "dbdl"
    texts = {mutant: (package / mutant.file).read_text(encoding="utf-8") for mutant in MUTANTS}
    assert [mutant.name for mutant, text in texts.items() if text.count(mutant.old) != 1] == []
