-- The same rows as records.sql for a narrow window. Equal keys only: a basket of a million lines costs a line as much
-- as any other, where a join on the basket alone would look at all of its pairs.
SELECT
  CASE WHEN a.item < b.item THEN a.item ELSE b.item END AS low,
  CASE WHEN a.item < b.item THEN b.item ELSE a.item END AS high,
  CASE WHEN a.item < b.item THEN 1 ELSE 0 END AS low_first,
  a.customer
FROM (
  SELECT lines.basket, lines.position + steps.step AS position, lines.item, lines.removal, lines.customer
  FROM lines CROSS JOIN steps
) AS a
JOIN lines AS b ON b.basket = a.basket AND b.position = a.position
WHERE a.removal <> b.removal
