//! The column names of published datasets, as data: the rules that recognize a corpus.

/// Question columns, the likeliest first. A prompt may be a template around the question. A formatted question includes
/// what the plain one lacks, such as the options to choose from.
pub(crate) const QUESTIONS: &[&str] = &[
    "problem",
    "formated_question",
    "formatted_question",
    "question",
    "prompt",
    "instruction",
    "query",
    "input",
    "text",
];

/// Names of columns that hold a chain or a list of chains, in files that also have an answer column. The likeliest name
/// comes first.
pub(crate) const CHAINS: &[&str] = &[
    "cot",
    "reasoning_content",
    "reasoning",
    "thinking",
    "think",
    "thought",
    "complex_cot",
    "chain_of_thought",
    "thinking_trajectory",
    "thinking_trajectories",
    "reason",
];

pub(crate) const ANSWERS: &[&str] =
    &["gen_ans", "answer", "final_answer", "response", "output", "content", "solution", "translation", "trans"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Chain and answer in separate columns. A list of texts is a chain of steps.
    Columns,
    Generation,
    Generations {
        needs_flags: bool,
    },
    Turns,
}

impl Form {
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Columns => "chain and answer, each in a column; a list of texts is a chain of steps",
            Self::Generation => "one text: the chain in think tags, then the answer",
            Self::Generations { .. } => {
                "several generations, each the chain in think tags, then the answer; asap reads the first generation, or with flags the first that is correct and, by is_reasoning_complete, not cut off"
            }
            Self::Turns => {
                "a conversation of one exchange: the user's turn, and the assistant's with the chain in think tags or in reasoning_content, reasoning or thinking"
            }
        }
    }
}

pub(crate) struct Rule {
    pub name: &'static str,
    pub form: Form,
    pub question: &'static [&'static str],
    pub cot: &'static [&'static str],
    /// Answer columns, or flags that mark which of several texts are correct.
    pub answer: &'static [&'static str],
}

/// Flags of correct generations: Booleans, or numbers where 1 means true.
pub(crate) const FLAGS: &[&str] = &[
    "correctness_math_verify",
    "correctness_llama",
    "is_correct",
    "correct",
    "correctness",
    "verified",
    "score",
    "scores",
];

/// Columns that mark correct rows, the likeliest first. They count only if every value is a Boolean, 0 or 1.
pub(crate) const ROW_FLAGS: &[&str] = &["is_correct", "correct", "correctness", "verified", "reward", "score"];

pub(crate) const SYSTEMS: &[&str] = &["system", "system_prompt"];

/// Either of these flags suffices. Of other flags, the likeliest that is not NULL decides.
pub(crate) const EITHER: &[&str] = &["correctness_math_verify", "correctness_llama"];

/// Marks the generations that the model finished. asap never reads unfinished ones.
pub(crate) const COMPLETE: &str = "is_reasoning_complete";

pub(crate) const ITEM_TEXTS: &[&str] =
    &["generation", "solution", "response", "completion", "full_cot", "output", "content", "text"];

pub(crate) const TURN_CHAINS: &[&str] = &["reasoning_content", "reasoning", "thinking"];

pub(crate) const OWN: &str = "asap";

pub(crate) const BY_TAGS: &str = "think tags";
pub(crate) const BY_USER: &str = "--columns";

/// Layouts recognized by column names, tried in this order. If none fits, a text column with think tags next to a question
/// column is read as a generation.
pub(crate) const RULES: &[Rule] = &[
    Rule { name: OWN, form: Form::Columns, question: &["question"], cot: &["cot"], answer: &["answer"] },
    Rule { name: "cot", form: Form::Generation, question: &["question"], cot: &["cot"], answer: &[] },
    Rule {
        name: "generation",
        form: Form::Generation,
        question: QUESTIONS,
        cot: &["generation", "generated_solution"],
        answer: &[],
    },
    Rule {
        name: "generations",
        form: Form::Generations { needs_flags: false },
        question: QUESTIONS,
        cot: &["generations"],
        answer: FLAGS,
    },
    Rule {
        name: "solutions",
        form: Form::Generations { needs_flags: true },
        question: QUESTIONS,
        cot: &["solutions", "responses", "completions", "samples", "rollouts", "code"],
        answer: FLAGS,
    },
    Rule {
        name: "deepseek_reasoning",
        form: Form::Columns,
        question: QUESTIONS,
        cot: &["deepseek_reasoning"],
        answer: &["deepseek_solution"],
    },
    Rule {
        name: "deepseek_thinking_trajectory",
        form: Form::Columns,
        question: QUESTIONS,
        cot: &["deepseek_thinking_trajectory", "thinking_trajectories"],
        answer: &["deepseek_attempt", "attempt"],
    },
    Rule {
        name: "messages",
        form: Form::Turns,
        question: &[],
        cot: &["messages", "conversations", "conversation"],
        answer: &[],
    },
    Rule {
        name: "prompt and completion",
        form: Form::Turns,
        question: &["prompt", "input"],
        cot: &["completion", "output", "response"],
        answer: &[],
    },
    Rule { name: "chain and answer", form: Form::Columns, question: QUESTIONS, cot: CHAINS, answer: ANSWERS },
];
