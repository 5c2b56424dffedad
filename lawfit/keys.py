"""What a row of a round log belongs to."""

from __future__ import annotations

import polars as pl

_SEPARATOR = "\x1f"  # in no name that people write

RUN = pl.col("run_id").fill_null("")
"""The run; "" where it is not named."""

REQUEST = pl.concat_str([pl.lit("request"), RUN, pl.col("request_id")], separator=_SEPARATOR)
"""The request within its run; null where it is not named."""

PROMPT = pl.coalesce("prompt_id", REQUEST)
"""The prompt, whatever the run, else the request; null where neither is named. Errors are clustered by it."""

SEQUENCE = pl.coalesce(REQUEST, pl.concat_str([pl.lit("prompt"), RUN, pl.col("prompt_id")], separator=_SEPARATOR))
"""The request, else the prompt within its run: what has a last round. Null where neither is named."""
