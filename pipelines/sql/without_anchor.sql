-- Stage 2 alone: drops the step of the original chain with the least surprising first token, one by one, until the
-- chain has at most asap.refine.max_tokens tokens (Algorithm 2, except that steps longer than that are dropped before).
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_surprisal(question, cot_steps(cot)) AS surprisal FROM corpus)
    SELECT *, cot_fit(cot_steps(cot), surprisal, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
))
