//! The column names of published datasets, as data: the rules that recognize a corpus.

macro_rules! names {
    ($($name:ident)+) => { &[$(stringify!($name)),+] };
}

/// Question columns, the likeliest first. A prompt may be a template around the question. A formatted question includes
/// what the plain one lacks, such as the options to choose from.
pub(crate) const QUESTIONS: Names = names![
    problem formated_question formatted_question question prompt instruction query input text
];

/// Names of columns that hold a chain or a list of chains, in files that also have an answer column. The likeliest name
/// comes first.
pub(crate) const CHAINS: Names = names![
    cot reasoning_content reasoning thinking think thought complex_cot chain_of_thought thinking_trajectory
    thinking_trajectories reason thinking_blocks reasoning_details
];

pub(crate) const ANSWERS: Names = names![
    gen_ans answer final_answer response output content solution translation trans
];

pub(crate) const CONVERSATIONS: Names = names![messages conversations conversation contents];

type Names = &'static [&'static str];

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
    pub question: Names,
    pub cot: Names,
    /// Answer columns, or flags that mark which of several texts are correct.
    pub answer: Names,
}

/// Flags of correct generations: Booleans, or numbers where 1 means true.
pub(crate) const FLAGS: Names = names![
    correctness_math_verify correctness_llama is_correct correct correctness verified score scores
];

/// Columns that mark correct rows, the likeliest first. They count only if every value is a Boolean, 0 or 1.
pub(crate) const ROW_FLAGS: Names = names![is_correct correct correctness verified reward score];

pub(crate) const SYSTEMS: Names = names![system system_prompt];

/// Either of these flags suffices. Of other flags, the likeliest that is not NULL decides.
pub(crate) const EITHER: Names = names![correctness_math_verify correctness_llama];

/// Marks the generations that the model finished. asap never reads unfinished ones.
pub(crate) const COMPLETE: &str = "is_reasoning_complete";

pub(crate) const ITEM_TEXTS: Names = names![generation solution response completion full_cot output content text];

const SOLUTIONS: Names = names![solutions responses completions samples rollouts code];
const TRAJECTORIES: Names = names![deepseek_thinking_trajectory thinking_trajectories];

/// The speaker and the content of a message.
pub(crate) const TURN_FIELDS: Names = names![role content from value parts];

/// The column of questions that may be rendered by a chat template.
pub(crate) const RENDERED: &str = "prompt";

/// The column of earlier turns in LLaMA-Factory's form of Alpaca.
pub(crate) const HISTORY: &str = "history";

pub(crate) const OWN: &str = "asap";

pub(crate) const BY_TAGS: &str = "think tags";
pub(crate) const BY_USER: &str = "--columns";

/// Layouts recognized by column names, tried in this order: their names, forms, and columns of question, chain and answer. If
/// none fits, a text column with think tags next to a question column is read as a generation.
pub(crate) const RULES: &[Rule] = &[
    rule(OWN, Form::Columns, names![question], names![cot], names![answer]),
    rule("cot", Form::Generation, names![question], names![cot], &[]),
    rule("generation", Form::Generation, QUESTIONS, names![generation generated_solution], &[]),
    rule("generations", Form::Generations { needs_flags: false }, QUESTIONS, names![generations], FLAGS),
    rule("solutions", Form::Generations { needs_flags: true }, QUESTIONS, SOLUTIONS, FLAGS),
    rule("deepseek_reasoning", Form::Columns, QUESTIONS, names![deepseek_reasoning], names![deepseek_solution]),
    rule("deepseek_thinking_trajectory", Form::Columns, QUESTIONS, TRAJECTORIES, names![deepseek_attempt attempt]),
    rule("messages", Form::Turns, &[], CONVERSATIONS, &[]),
    rule("prompt and completion", Form::Turns, names![prompt input], names![completion output response], &[]),
    rule("chain and answer", Form::Columns, QUESTIONS, CHAINS, ANSWERS),
];

const fn rule(name: &'static str, form: Form, question: Names, cot: Names, answer: Names) -> Rule {
    Rule { name, form, question, cot, answer }
}
