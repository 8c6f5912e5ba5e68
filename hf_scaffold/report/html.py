"""A report as one HTML page: no other files, no network, readable without JavaScript and on paper."""

from __future__ import annotations

from hf_scaffold._utils.version import __version__
from hf_scaffold.evaluation.inspection import readable
from hf_scaffold.evaluation.tables import TRAIN
from hf_scaffold.report import words
from hf_scaffold.report.facts import Facts
from hf_scaffold.report.figures import figure_frequencies, figure_gain, figure_standalone
from hf_scaffold.report.svg import Figure
from hf_scaffold.text.files import import_extra


def html_of(report: Facts) -> str:
    """The page; the template engine escapes every text in it."""
    jinja2 = import_extra("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hf_scaffold", "data"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["token"] = readable
    environment.filters["percent"] = words.percent
    environment.filters["running"] = words.running_text
    page: str = environment.get_template("report.html.jinja").render(
        report=report, words=words, figures=_figures(report), version=__version__
    )
    return page


def _figures(report: Facts) -> dict[str, Figure]:
    return {
        "standalone": figure_standalone(report.standalone),
        "frequencies": figure_frequencies(report.table.evaluations[TRAIN].values()),
        "gain": figure_gain({words.TEXT_NAMES[text]: change for text, change in report.changes.items()}),
    }
