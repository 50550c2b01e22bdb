-- The original chain, whole: the rows that the other arms prune.
SELECT * FROM pruned((SELECT *, cot AS compressed FROM corpus))
