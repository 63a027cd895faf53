"""Plotly figures as plain JSON-able dictionaries, each a pure function of traces.

Colours are roles ("@accepted"), which the browser replaces by the theme in use (theme.py); figures of single rounds are
one template and a small patch a round (replay.py), so that a run of hundreds of rounds stays a few hundred kilobytes.
"""
