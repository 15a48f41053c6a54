"""I/O latency: traces of any format as Arrow tables, histograms that merge exactly, and the views of latscope.

>>> import latscope as lat
>>> trace = lat.read("perf.data", filter="lat > 1ms")
>>> trace.percentiles([50, 99], interval="1s", by="device").to_pandas()
"""

from latscope import buckets
from latscope._native import Error, UsageError, __version__
from latscope.live import Capture, capture, record
from latscope.series import Page, Picture, Series, merge
from latscope.trace import Answer, Application, Trace, compare, read

__all__ = [
    "Answer",
    "Application",
    "Capture",
    "Error",
    "Page",
    "Picture",
    "Series",
    "Trace",
    "UsageError",
    "__version__",
    "buckets",
    "capture",
    "compare",
    "merge",
    "read",
    "record",
]
