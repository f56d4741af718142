//! What the fuzz targets run (written next).
