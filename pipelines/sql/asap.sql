-- The whole method. Stage 1: a direct thought anchors a coarse pruning of the chain (Algorithm 1). Stage 2: of what is
-- left, the step whose first token is the least surprising goes first, until the chain has at most
-- asap.refine.max_tokens tokens (Algorithm 2; but steps too long for that go before it).
SELECT *
FROM pruned((
    WITH anchored AS (SELECT *, cot_anchor(question, answer) AS direct FROM corpus),
    coarsened AS (SELECT *, cot_coarse(cot, direct['thought']) AS coarse FROM anchored),
    scored AS (SELECT *, cot_surprisal(question, cot_steps(coarse['cot'])) AS surprisal FROM coarsened)
    SELECT *, cot_fit(cot_steps(coarse['cot']), surprisal, cot_budget(cot_tokens(cot))) AS kept
    FROM scored
))
