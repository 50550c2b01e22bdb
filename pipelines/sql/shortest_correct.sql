-- Prunes nothing: of several generations for a question, keeps the shortest that states the expected answer. Reads
-- the columns generations (texts) and answer (the expected one) of the input, as in OpenR1-Math. The budget has no
-- effect.
-- As published.
SELECT *
FROM pruned((
    WITH chosen AS (SELECT *, cot_shortest_correct(generations, source_answer) AS generation FROM corpus)
    SELECT * REPLACE (
            cot_think(generations[generation]) AS cot,
            cot_response(generations[generation]) AS answer,
            coalesce(status, CASE WHEN generation IS NULL THEN 'unverified' END) AS status,
            coalesce(error, CASE WHEN generation IS NULL THEN 'no generation states the expected answer' END) AS error
        ),
        generate_series(1, array_length(cot_steps(cot_think(generations[generation])))) AS kept
    FROM chosen
), 'shortest_correct')
