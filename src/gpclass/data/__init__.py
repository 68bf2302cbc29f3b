"""Sources of rows and targets of predictions: Parquet folders, memory maps, Dask, tables."""
