-- Prunes nothing: of several generations for a question, keeps the correct one that is closest to what the student would
-- write: with the lowest rank-surprisal ratio (arXiv 2601.14249), which becomes the column ratio. The student is
-- asap.scorer.model. Reads the columns generations (texts) and answer (the expected one) of the input, as in OpenR1-Math.
-- The budget has no effect.
-- Differs from its publication: only generations with the expected answer are candidates.
SELECT *
FROM pruned((
    WITH numbered AS (
        SELECT *, cot_closest_correct(question, generations, source_answer) AS generation,
            cot_shortest_correct(generations, source_answer) IS NOT NULL AS is_solved
        FROM corpus
    ),
    chosen AS (SELECT * REPLACE (cot_think(generations[generation]) AS cot, cot_response(generations[generation]) AS answer) FROM numbered)
    SELECT * EXCEPT (is_solved) REPLACE (
            coalesce(status, CASE WHEN generation IS NULL THEN CASE WHEN is_solved THEN 'no_score' ELSE 'unverified' END END) AS status,
            coalesce(error, CASE WHEN generation IS NULL THEN CASE WHEN is_solved THEN 'no generation that states the expected answer has a score' ELSE 'no generation states the expected answer' END END) AS error
        ),
        -- Its scores are known from the choice.
        cot_rank_surprisal(question, cot, answer)['ratio'] AS ratio,
        generate_series(1, array_length(cot_steps(cot))) AS kept
    FROM chosen
), 'closest_correct')
