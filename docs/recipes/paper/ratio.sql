-- The rank-surprisal ratio and the mean surprisal of each trajectory, for the student asap.scorer.model.
SELECT source, id, question, cot, answer, teacher, status, error, cot_tokens(cot) AS tokens,
    rsr['ratio'] AS ratio, rsr['surprisals'] / rsr['tokens'] AS surprisal
FROM (SELECT *, cot_rank_surprisal(question, cot, answer) AS rsr FROM corpus)
