"""How fast freepull is, beside C and other libraries; `python -m benchmarks`."""
