-- The same rows as records.sql for a narrow window, by equal keys only. Baskets are cut into stretches of `reach`
-- places; a line meets those of its own stretch and of the next one. So a basket of a million lines costs a line as much
-- as any other, and its lines need not all be in one place.
SELECT
  CASE WHEN a.item < b.item THEN a.item ELSE b.item END AS low,
  CASE WHEN a.item < b.item THEN b.item ELSE a.item END AS high,
  CASE WHEN a.item < b.item THEN 1 ELSE 0 END AS low_first,
  a.customer
FROM (
  SELECT basket, position, item, removal, customer, position - position % (SELECT reach FROM settings) AS stretch
  FROM lines
  UNION ALL
  SELECT
    basket, position, item, removal, customer,
    position - position % (SELECT reach FROM settings) + (SELECT reach FROM settings) AS stretch
  FROM lines
) AS a
JOIN (
  SELECT basket, position, item, removal, position - position % (SELECT reach FROM settings) AS stretch
  FROM lines
) AS b ON b.basket = a.basket AND b.stretch = a.stretch
WHERE b.position > a.position AND b.position - a.position <= (SELECT reach FROM settings) AND a.removal <> b.removal
