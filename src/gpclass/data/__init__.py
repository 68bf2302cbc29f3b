"""Where rows come from and predictions go: Parquet folders, memory maps, Dask, tables."""
