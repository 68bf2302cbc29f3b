"""A comparison as one self-contained HTML file."""

from gpclass.report.html import render_report, write_report

__all__ = ["render_report", "write_report"]
