"""Bytes and text that cross a process or a disk: journal, frames, trees, chunks, TensorBoard events, filters,
plain JSON.

May enter: everybody.
Loads: each module with its first user; `journal` in every rank.
"""
