"""
Reproduce a figure
==================

freepull began as an implementation of a paper: Shi, Xu, Xiong and Shen, *(Almost) Free Incentivized Exploration from
Decentralized Learning Agents*, NeurIPS 2021. Its Fig. 2(c) shows what a principal pays against δ, the error that she
allows herself. We draw it again, with fewer runs.
"""

# %%
# A study
# -------
#
# A figure needs many simulations that differ in one thing. A *study* is a file that names the game, the people and the
# principals, and says what to vary. The paper's experiments come with freepull.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import freepull as fp
from freepull import studies

study = studies.read("paper-2c").with_runs(3)
print(study.title)
print(len(study.cells), "cells, such as", study.cells[-1].name)

# %%
# Run it
# ------
#
# A study can be stopped at any time, and continues where it was. The paper has 100 runs of every cell; here are 3, so
# the intervals are wide.

folder = tempfile.TemporaryDirectory()
report = studies.run(study, Path(folder.name) / "2c")
store = studies.Store.open(report.folder)
rows = studies.summary(store)
rows.select("principal", "delta", "paid", "paid_low", "paid_high", "decided", "correct")

# %%
# Draw it
# -------
#
# ``paper`` is the bound as it is printed, ``authors`` the constant of their code (a heuristic, without a proof), and
# ``certified`` the rule of freepull. The shares above the points say how often a trial was decided: as printed, the
# paper's bound decides nothing within the horizon, and pays all it can.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
fp.charts.against(rows, "delta", ax=ax).set_title(study.title, fontsize=10)
plt.show()
folder.cleanup()

# %%
# All of the paper
# ----------------
#
# ``make reproduce`` (or ``freepull reproduce``) runs every experiment with 100 runs, writes a report that says of each
# claim what was measured, and compares the numbers with those of an independent program. What came out is on the page
# `The paper reproduced <../reproduction.html>`_; study files are described in `Studies <../studies.html>`_.
