"""The compiled engine: the same paths as the readable one, thousands of times faster."""
