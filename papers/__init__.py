"""The experiments of the papers behind the methods: our figures beside the published ones.

``python -m papers.<paper> [experiment ...] [--full] [--write]`` runs, prints, and keeps CSV and PNG in
``results/<paper>/``.
"""
