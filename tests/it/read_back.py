"""Reads the exports of a run with the readers that users use, and prints their content as one JSON document.

Arguments: the CSV, the Parquet file, the HdrHistogram log, Locust's table.
"""

import json
import sys

import pandas
import pyarrow.parquet
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader


def rows(frame):
    """The rows of a frame by column, without missing values."""
    return [
        {name: value for name, value in row.items() if not pandas.isna(value)}
        for row in frame.astype(object).to_dict("records")
    ]


def intervals(path):
    """The intervals of a log, read by HdrHistogram's own reader."""
    reader = HistogramLogReader(path, HdrHistogram(1, 3_600_000_000_000, 3))
    found = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found.append({
            "tag": histogram.get_tag(),
            "start_unix_ms": histogram.get_start_time_stamp(),
            "end_unix_ms": histogram.get_end_time_stamp(),
            "count": histogram.get_total_count(),
            "max_ns": histogram.get_max_value(),
        })
    return found


def main():
    csv_path, parquet_path, log_path, locust_path = sys.argv[1:]
    parquet = pyarrow.parquet.read_table(parquet_path)
    # The default float parser of pandas is not exact.
    document = {
        "csv": rows(pandas.read_csv(csv_path, float_precision="round_trip")),
        "parquet": [{name: value for name, value in row.items() if value is not None} for row in parquet.to_pylist()],
        "parquet_types": {field.name: str(field.type) for field in parquet.schema},
        "parquet_in_pandas": rows(pandas.read_parquet(parquet_path)),
        "locust": rows(pandas.read_csv(locust_path, float_precision="round_trip")),
        "hdr": intervals(log_path),
    }
    # Converts NumPy numbers to Python numbers, and rejects infinity and NaN, which JSON cannot represent.
    json.dump(document, sys.stdout, allow_nan=False, default=lambda value: value.item())


main()
