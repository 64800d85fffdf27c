"""Catalogs of PyIceberg whose calls end in time, with an answer of bounded size or none."""
