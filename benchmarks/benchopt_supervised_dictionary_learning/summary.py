"""Print a table of the newest results: python summary.py [file.parquet]."""

import sys
from pathlib import Path

import pandas as pd

COLUMNS = {
    "objective_accuracy": "accuracy",
    "objective_log_loss": "log-loss",
    "objective_n_atoms": "atoms",
    "time": "seconds",
}


def newest():
    found = sorted((Path(__file__).parent / "outputs").glob("*.parquet"))
    return found[-1] if found else sys.exit("no results: benchopt run . first")


def main():
    results = pd.read_parquet(sys.argv[1] if len(sys.argv) > 1 else newest())
    names = ["dataset_name", "solver_name"]
    table = results.groupby(names)[list(COLUMNS)].mean().rename(columns=COLUMNS)
    table["runs"] = results.groupby(names).size()
    order = table.reset_index().sort_values(["dataset_name", "accuracy"], ascending=[True, False])
    print(order.to_string(index=False, float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
