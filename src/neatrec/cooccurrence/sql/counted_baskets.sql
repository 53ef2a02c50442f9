-- Baskets with enough lines, counted before any other filter: basket.
SELECT sized.basket
FROM (SELECT basket, COUNT(*) AS size FROM basket_lines GROUP BY basket) AS sized
WHERE sized.size >= (SELECT min_basket FROM settings)
