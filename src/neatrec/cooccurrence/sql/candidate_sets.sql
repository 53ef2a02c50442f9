-- The items bought most often with each query: query, item, pair_count, best (1: most often; equal counts by place).
SELECT ranked.query, ranked.item, ranked.pair_count, ranked.best
FROM (
  SELECT
    p.query,
    p.item,
    p.pair_count,
    ROW_NUMBER() OVER (PARTITION BY p.query ORDER BY p.pair_count DESC, i.place) AS best
  FROM symmetric_pairs AS p
  JOIN items AS i ON i.item = p.item
) AS ranked
WHERE ranked.best <= (SELECT candidates FROM settings)
