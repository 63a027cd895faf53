"""Benchmarks, limits, tuning and experiments: what is measured with the engine, and its reports."""
