-- Each unordered pair of each customer once: low, high, customer, and the records as in pair_counts.sql.
-- Counted in two steps, because a step can spill to disk and COUNT(DISTINCT) may not.
SELECT
  low,
  high,
  customer,
  CAST(SUM(low_first) AS BIGINT) AS ahead,
  CAST(SUM(1 - low_first) AS BIGINT) AS behind
FROM records
GROUP BY low, high, customer
