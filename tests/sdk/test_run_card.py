"""The card of a run: what it says, as text and as HTML in which nothing of a run's own words is markup."""

from __future__ import annotations

import pytest

from azureml.widgets import RunDetails
from runyard.core.statuses import RunStatus
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.notebook import Card, CardLine, card_html
from runyard.sdk.workspaces.experiment import Experiment

HOSTILE = "<script>alert(1)</script>\"'&"


def test_nothing_of_a_runs_own_words_is_markup() -> None:
    html = card_html(
        Card(
            HOSTILE, HOSTILE, RunStatus.FAILED, 3725.0, HOSTILE, 'http://x/?a=1&b="', lines=[CardLine(HOSTILE, HOSTILE)]
        )
    )

    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 5
    assert "1:02:05" in html and 'href="http://x/?a=1&amp;b=&quot;"' in html


def test_outside_of_a_notebook_it_is_text(experiment: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    run = experiment.start_logging()
    run.log("loss", 0.125)
    run.child_run("fold").complete()
    run.complete()
    details = RunDetails(run)
    details.show()
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith("Completed 0:0") and lines[0].endswith(f"{experiment.name} · {run.id}")
    assert lines[1:3] == ["children: 1 Completed", "  loss = 0.125"]
    run._ipython_display_()
    assert capsys.readouterr().out == f"{run!r}\n"
    data = details.get_widget_data()
    assert (data["status"], data["run_metrics"]) == ("Completed", [{"name": "loss", "last": "0.125"}])
    with pytest.raises(UserErrorException, match="shows a run"):
        RunDetails(3)  # type: ignore[arg-type]
