"""
A study on a Dask cluster
=========================

One machine simulates about a hundred million steps of agents a second. If that is too slow, a study can run on a
cluster: the same study, the same bits, more machines.
"""

# %%
# A cluster
# ---------
#
# On real machines you start a scheduler on one, and workers on all, which need the same version of freepull and
# nothing in common but the network::
#
#     dask scheduler                       # on one machine; it prints its address
#     dask worker tcp://10.0.0.1:8786      # on every machine
#
# Here, two workers of this process have to do.

import tempfile
from pathlib import Path

from distributed import LocalCluster

from freepull import studies

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)

# %%
# The study
# ---------
#
# Two principals, three sizes of the panel, 50 runs of each.

FILE = """
title = "How many people does it take?"
runs = 50
seed = 7
game = "street:gap=0.1"
until = "decided"

[principals.certain]
rule = { kind = "comparisons", delta = 0.05, epsilon = 0.0 }
observe = "share:0.1"
protocol = "never-ban"
offers = "each"

[principals.nearly]
rule = { kind = "comparisons", delta = 0.05, epsilon = 0.05 }
observe = "share:0.1"
protocol = "never-ban"
offers = "each"

[sweep]
"game.agents" = [50, 100, 200]
"""

folder = tempfile.TemporaryDirectory()
here = Path(folder.name)
(here / "people.toml").write_text(FILE)
study = studies.read(here / "people.toml")
print(len(study.cells), "cells")

# %%
# Run it there
# ------------
#
# ``scheduler=`` is the only difference. The workers simulate, and this process writes the folder, so no disk is shared.
# In a shell it is ``freepull study run people.toml --scheduler tcp://10.0.0.1:8786``.

report = studies.run(study, here / "cluster", scheduler=cluster.scheduler_address, progress=False)
print(f"{report.new:,} runs")
cluster.close()

# %%

there = studies.Store.open(here / "cluster")
studies.summary(there).select("principal", "game.agents", "runs", "paid", "decided", "correct")

# %%
# The same bits
# -------------
#
# A run depends on the parameters, the seed and its number; not on who simulates it. So the cluster's table is that of
# this machine, to the last bit.

studies.run(study, here / "alone", progress=False)
alone = studies.Store.open(here / "alone")
print("same bits:", studies.frame(there).equals(studies.frame(alone)))

# %%
# That is also why nothing is lost when machines fail: whoever is left simulates the same runs. A worker that dies
# gives its work to another; one that is very slow is overtaken; Ctrl-C keeps every finished run, and the same command
# continues, on the cluster or without it. What more machines bring was measured in `Studies <../studies.html>`_.

folder.cleanup()
