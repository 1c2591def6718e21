"""What a campaign survives: crashes, power cuts, faults, two writers, corruption; `python -m chaos`."""
