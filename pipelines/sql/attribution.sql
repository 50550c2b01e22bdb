-- PIR (Xiao et al. 2025): of the original chain, the step without which the answer loses the least goes first, until the
-- chain has at most asap.refine.max_tokens tokens. The model reads a chain about half as often as it has steps.
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_attribution(question, cot_steps(cot), answer) AS attribution FROM corpus)
    SELECT *, cot_refine(cot_steps(cot), attribution, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
), 'attribution')
