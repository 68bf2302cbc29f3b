"""The experiments of the papers: our numbers beside the published ones.

``python -m papers.<paper> [experiment ...] [--full] [--write]`` runs, prints, and writes CSV and PNG to
``results/<paper>/``. ``python -m papers.keep`` keeps what took hours (:mod:`papers.keep`).
"""
