"""Prints the configs that are fastest most often in a dataset of GEMMs. Usage: look_at_data.py FILE.parquet"""

import sys

import kscout

data = kscout.Dataset(sys.argv[1])
frame = data.to_pandas().query("status == 'ok'")
best = frame.sort_values("time_us").groupby(["m", "n", "k", "batch", "layout"]).head(1)
print(data.metadata()["device"]["name"], len(data.problems()), "problems")
print(best.config.value_counts().head(5).to_string())
