"""Whether what freepull claims is true: `python -m verification`, and `python -m verification.calibrate` for plans."""
