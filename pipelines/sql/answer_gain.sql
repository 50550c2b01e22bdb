-- Drops the step of the original chain that helps the answer least, one by one, until the chain has at most
-- asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_answer_gain(question, cot_steps(cot), answer) AS answer_gain FROM corpus),
    refined AS (SELECT *, cot_refine_or_fit(cot_steps(cot), answer_gain, cot_budget(cot_tokens(cot))) AS refined FROM scored)
    SELECT * EXCEPT (refined), refined['kept'] AS kept, refined['by'] AS refined_by
    FROM refined
), 'answer_gain')
