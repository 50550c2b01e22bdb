-- Keeps the steps with the label `core`, which the answer needs: a ceiling for all choices of steps.
SELECT *
FROM pruned((SELECT *, array_positions(labels, 'core') AS kept FROM corpus), 'core')
