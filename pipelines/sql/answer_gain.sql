-- Drops the step of the original chain that helps the answer least, one by one, until the chain has at most
-- asap.refine.max_tokens tokens.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_answer_gain(question, cot_steps(cot), answer) AS answer_gain FROM corpus)
    SELECT *, cot_refine(cot_steps(cot), answer_gain, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
), 'answer_gain')
