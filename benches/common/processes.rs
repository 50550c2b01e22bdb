//! Runs each case of a language-model bench in its own process, to measure its peak memory and set its number of
//! threads.

use std::process::Command;

#[path = "memory.rs"]
mod memory;

pub(crate) use memory::peak;

/// The variable that names the case to a child process.
const CASE: &str = "ASAP_BENCH_CASE";

/// The shape of Qwen2.5-0.5B.
pub(crate) const HALF_A_BILLION: &str = r#"{
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 896,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "num_attention_heads": 14, "num_hidden_layers": 24,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": true, "vocab_size": 151936
}"#;

/// Returns the case of this process, or None in the process that starts them.
pub(crate) fn case() -> Option<String> {
    std::env::var(CASE).ok()
}

/// Runs a case on `threads` cores, with additional variables, if the command line names it. Without names on the
/// command line, runs it if it `is_usual`.
pub(crate) fn run(name: &str, threads: usize, variables: &[(&str, &str)], is_usual: bool) {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if if named.is_empty() { is_usual } else { named.iter().any(|asked| asked == name) } {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.env(CASE, name).env("RAYON_NUM_THREADS", threads.to_string()).envs(variables.iter().copied());
        assert!(process.status().unwrap().success(), "{name}");
    }
}
