"""Reports: one HTML file each, with nothing to fetch, to read in any browser or on paper.

`write_report` shows a fitted classifier on test rows, `write_explanation` one decision, and
`write_results` the summary of an experiment beside the paper's numbers.
"""

from dbdl.report.explained import write_explanation
from dbdl.report.page import identity_of, write_report
from dbdl.report.results import write_results

__all__ = ["identity_of", "write_explanation", "write_report", "write_results"]
