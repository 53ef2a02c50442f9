"""What one request may ask for."""

from __future__ import annotations

K = 10
"""Answers when `k` is not given."""
MOST_K = 100
MOST_ITEMS = 100
"""Items in a cart, ids to exclude."""
MOST_CATEGORIES = 20
LONGEST_NAME = 256
"""Of a category or model. Ids may be as long as the query string or the body leaves room for."""
LONGEST_GUESS = 256
"""Of an unknown id for which near names are looked for."""
LONGEST_SEARCH = 256
LARGEST_BODY = 1024 * 1024
BODY_SECONDS = 10.0
"""How long a body may take to arrive: a request that waits for it holds a place."""
LONGEST_QUERY_STRING = 32 * 1024
IN_FLIGHT = 64
"""Requests that are worked on at the same time; more are answered with 503 at once."""
CACHE_BYTES = 32 * 1024 * 1024
"""Rendered answers that are kept for the next caller."""
CATEGORY_BYTES = 16 * 1024 * 1024
"""Members of categories that are kept, for one bundle."""
