r"""The README's example runs, its names exist and CI runs its test command."""

import re
from pathlib import Path

import kernelucb
from benchmarks.pictures.readme_norm import norms

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def command_after(marker: str) -> str:
    return re.search(rf"<!-- {marker} -->\n```bash\n(.+)\n```", README).group(1)


def test_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 30
    names: dict = {}
    exec(example, names)
    assert bool((names["lower"] <= names["upper"]).all())
    output = capsys.readouterr().out
    assert "certified, if what was given is true" in output
    assert "Flynn & Reeb" in output


def test_the_examples_norm_bound_covers_its_function():
    assert f"norm under this kernel is {norms()[1200]:.1f}" in README.replace("\n", " ")
    assert max(norms().values()) < 10.0


def test_it_is_two_screens():
    assert len(README.splitlines()) <= 110


def test_the_ranks_are_the_recorded_ones():
    table = (ROOT / "benchmarks/practical/results/compare_ranks.md").read_text()
    text = (ROOT / "docs/search.md").read_text().replace("\n", " ")
    guarded, bound = (
        re.search(rf"\| {label} \| ([^|]+) \|", table).group(1)
        for label in ("Guarded qLogNEI, every fourth by U", "MartingaleMixtureUCB")
    )
    for page in (README.replace("\n", " "), text):
        assert f"has the best mean rank: {guarded}, against" in page
    assert f"its mean rank is {bound}" in text


def test_classes_in_the_table_exist():
    table = README[README.index("| you want to |") :].partition("\n\n")[0]
    names = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row)}
    assert len(names) >= 6
    assert names <= set(kernelucb.__all__)


def test_links_point_to_files():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_two_commands_install_with_the_pins():
    for marker in ("demo", "tests"):
        command = command_after(marker)
        assert "-c constraints.txt" in command
        assert "\n" not in command
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


def test_ci_runs_the_test_command():
    script = (ROOT / ".ci/run").read_text()
    assert "<!-- tests -->" in script
    assert "pytest" in command_after("tests")
