"""Maps as files for a geographic information system: NetCDF, and GeoTIFF with a reference system.

A GeoTIFF has one band per class, named after it, from north to south as readers expect; NetCDF holds limits and Monte
Carlo errors as well, and three coordinates. Cost: that of writing. Fails when: the grid is not evenly spaced (GeoTIFF).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass.names import optional
from gpclass.numerics.files import replacing

if TYPE_CHECKING:
    from gpclass.geostat.maps import ClassMaps

NETCDF, GEOTIFF = (".nc",), (".tif", ".tiff")


def write_maps(maps: ClassMaps, path: Any, crs: Any = None) -> None:
    """Write all maps to a file; its ending chooses the format."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (*NETCDF, *GEOTIFF):
        raise ValueError(f"maps are written to {', '.join((*NETCDF, *GEOTIFF))}, not {path.name!r}")
    if kind in GEOTIFF and len(maps.axes) != 2:
        raise ValueError("a GeoTIFF is a plane: write a map with three coordinates to NetCDF (.nc)")
    table: Any = maps.to_xarray()
    if kind in GEOTIFF:
        for name, axis in zip(maps.names, maps.axes, strict=True):
            if len(axis) < 2 or np.ptp(np.diff(axis)) > 1e-6 * abs(float(axis[-1] - axis[0])):
                raise ValueError(f"a GeoTIFF needs an evenly spaced grid; {name} is not")
        table = table["probability"].sortby(maps.names[1], ascending=False)
        table.attrs["long_name"] = tuple(str(c) for c in maps.classes)
    if crs is not None or kind in GEOTIFF:
        optional("rioxarray", "a reference system or a GeoTIFF", "geo")
        table = table.rio.set_spatial_dims(*maps.names[:2])
        table = table if crs is None else table.rio.write_crs(crs)
    with replacing(path) as draft:
        if kind in NETCDF:
            table.to_netcdf(draft)
        else:
            table.rio.to_raster(draft, driver="GTiff")
