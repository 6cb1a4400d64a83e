r"""What a package index and GitHub get: ranges, contents, descriptions, workflows."""

import calendar
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from markdown_it import MarkdownIt
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernelucb import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ADDRESS = PROJECT["urls"]["Repository"]
# Tracked, but of no use without the repository around it.
NOT_IN_THE_SDIST = re.compile(r"\.github/|\.pre-commit-config\.yaml$")


def test_ranges_hold_the_pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    pins = {canonicalize_name(name): version for name, version in pairs}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in [Requirement(text) for group in groups for text in group]:
        if requirement.name != "kernelucb":
            version = pins[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), requirement


def test_the_conda_recipe_has_the_ranges_of_the_project():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == __version__
    listed = dict(each.split(" ", 1) for each in recipe["requirements"]["run"])
    listed["torch"] = listed.pop("pytorch")  # its name there
    assert listed.pop("python") == PROJECT["requires-python"]
    wanted = {}
    for requirement in map(Requirement, PROJECT["dependencies"]):
        wanted[requirement.name] = str(requirement.specifier)
    assert listed == wanted
    assert recipe["about"]["summary"] == PROJECT["description"]


def tracked():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    names = listed.stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


def included(builder):
    files = builder(str(ROOT)).recurse_included_files()
    return {file.distribution_path for file in files}


def test_sdist_holds_every_tracked_file_and_nothing_else():
    expected = {name for name in tracked() if not NOT_IN_THE_SDIST.match(name)}
    always = {".gitignore", "LICENSE", "pyproject.toml"}  # hatchling adds them by itself
    assert included(SdistBuilder) | always == expected
    assert {"docs/index.md", "docs/references.bib", "CITATION.cff"} <= expected


def test_wheel_holds_the_package_and_nothing_else():
    package = {name for name in tracked() if name.startswith("src/kernelucb/")}
    assert included(WheelBuilder) == {name.removeprefix("src/") for name in package}
    assert "src/kernelucb/py.typed" in package


def test_the_description_on_an_index_has_no_relative_link():
    core = ProjectMetadata(str(ROOT), PluginManager()).core
    assert core.readme_content_type == "text/markdown"
    assert not re.search(r'(src|href)="(?!https?:|#)', core.readme)
    blocks = MarkdownIt("commonmark").parse(core.readme)
    tokens = [token for block in blocks for token in block.children or []]
    targets = {token.attrs.get("href", token.attrs.get("src", "#")) for token in tokens}
    assert all(re.match(r"https?:|mailto:|#", target) for target in targets)
    raw = ADDRESS.replace("github.com", "raw.githubusercontent.com")
    ours = re.compile(rf"(?:{ADDRESS}/blob|{raw})/v{re.escape(__version__)}/([^#]+)")
    files = [found[1] for found in map(ours.match, targets) if found]
    assert len(files) > 10
    assert all((ROOT / file).exists() for file in files)


def test_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    given = {"cff-version": "1.2.0", "version": __version__, "repository-code": ADDRESS}
    given |= {key: PROJECT[key] for key in ("license", "authors", "keywords")}
    assert given.items() <= citation.items()
    assert all({"authors", "title", "type"} <= set(each) for each in citation["references"])


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_complete_and_publish_nothing(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "twine upload" not in text
    for job in workflow["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 180
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"actions/[\w-]+@v\d+", name) for name in used)
    for name in re.findall(r"[\w./]+\.(?:py|txt)\b", text):
        assert (ROOT / name).is_file(), name
    for extras in re.findall(r"'\.\[([\w,]+)\]'", text):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


@pytest.mark.skipif(not WORKFLOWS, reason="an sdist has no workflows")
def test_the_versions_of_python_that_are_named_are_tested():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    rows = workflow["jobs"]["pytest"]["strategy"]["matrix"]["include"]
    found = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert [row["python"] for row in rows] == found
    assert PROJECT["requires-python"] == f">={found[0]}"


OTHERS = {"NeurIPS", *calendar.month_name[1:]}
NAME = r"[A-Z][a-z][\w'-]+"
CITED = re.compile(rf"({NAME})(?:'s)?(?: et al\.)?,? \(?((?:19|20)\d\d)[a-z]?[,;)]")
YEAR = re.compile(r"(?:19|20)\d\d[a-z]?[,;)]")  # found first: most names are no authors


def cited_in(text):
    r"""Names with their years; a name has at most fifty letters."""
    near = [text[max(year.start() - 60, 0) : year.end()] for year in YEAR.finditer(text)]
    return {pair for words in near for pair in CITED.findall(words)}


def test_every_paper_that_is_named_has_an_entry():
    entries = []
    for entry in (ROOT / "docs/references.bib").read_text().split("\n@"):
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, flags=re.MULTILINE))
        authors = re.sub(r"[{}\\'`^~\"]", "", fields.get("author", ""))
        entries.append((authors, f"{fields.get('year')} {fields.get('note', '')}"))
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    files += [ROOT / "README.md", *(ROOT / "tutorials").glob("*.ipynb")]
    text = "\n".join(" ".join(path.read_text().split()) for path in files)
    cited = {(name, year) for name, year in cited_in(text) if name not in OTHERS}
    assert {("Reeb", "2024"), ("Chowdhury", "2017")} & cited
    for name, year in cited:
        assert any(name in authors and year in years for authors, years in entries), name
