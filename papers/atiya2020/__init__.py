"""Atiya, Abdel-Gawad & Fayed (2020): orthant probabilities and exact classification by particles (A for short).

``python -m papers.atiya2020 [table1|table2|table3|figures|predicted-error|order|tuning|points] [--full]
[--write]``
"""
