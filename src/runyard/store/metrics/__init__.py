"""Pure arithmetic of metric points: what arrives, chunks, chart buckets, merging of ranks.

May enter: memory, sql, sqlite, repair.
Loads: with the first points; numpy.
"""
