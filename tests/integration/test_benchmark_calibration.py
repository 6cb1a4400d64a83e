r"""The command that makes the margins of the default policy."""

import json

import pytest

from benchmarks.calibration.margins import main


# Five seconds: three replays of a few rounds each.
@pytest.mark.slow
def test_margins_are_made_and_extended(tmp_path, capsys):
    few = ["--inputs", "1", "--rounds", "6", "--output", str(tmp_path)]
    main([*few, "--replays", "1"])
    before = (tmp_path / "margins_1.jsonl").read_text()
    main([*few, "--replays", "3"])
    text = (tmp_path / "margins_1.jsonl").read_text()
    assert text.startswith(before)
    assert [json.loads(line)["replay"] for line in text.splitlines()[1:]] == [0, 1, 2]
    # Three replays have ranks for .3 alone.
    assert "RegretClaim(), margins by delta: 0.3: " in capsys.readouterr().out
