-- Stage 2 alone: of the original chain, the step whose first token is the least surprising goes first, until the chain
-- has at most asap.refine.max_tokens tokens (Algorithm 2; but steps too long for that go before it).
SELECT *
FROM pruned((
    WITH scored AS (SELECT *, cot_surprisal(question, cot_steps(cot)) AS surprisal FROM corpus)
    SELECT *, cot_fit(cot_steps(cot), surprisal, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
))
