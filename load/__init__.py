"""The service under load and under attack, on both stores; `python -m load`."""
