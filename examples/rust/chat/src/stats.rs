//! What a reply cost.
use kimi::{Finish, Step};
use std::time::Instant;

pub struct Stats {
    begin: Instant,
    seed: u64,
    /// The session knew nothing of the prompt.
    new_prompt: bool,
    prompt_tokens: u64,
    generated_tokens: u64,
    steps: u64,
    drafted: u64,
    accepted: u64,
    /// Seconds to the first token, and from there to the last.
    prompt_s: f64,
    decode_s: f64,
}

impl Stats {
    /// From now on.
    pub fn new(seed: u64, new_prompt: bool) -> Stats {
        Stats {
            begin: Instant::now(),
            seed,
            new_prompt,
            prompt_tokens: 0,
            generated_tokens: 0,
            steps: 0,
            drafted: 0,
            accepted: 0,
            prompt_s: 0.0,
            decode_s: 0.0,
        }
    }

    pub fn count(&mut self, step: &Step) {
        let elapsed = self.begin.elapsed().as_secs_f64();
        self.prompt_tokens = step.prompt_total;
        if self.generated_tokens == 0 {
            self.prompt_s = elapsed;
        } else {
            self.decode_s = elapsed - self.prompt_s;
            self.steps += 1;
        }
        self.generated_tokens += step.tokens.len() as u64;
        self.drafted += u64::from(step.draft_nodes);
        self.accepted += u64::from(step.draft_accepted);
    }

    pub fn print(&self, finish: Finish) {
        let rate = |n: u64, seconds: f64| match n {
            0 => "null".to_string(),
            n => format!("{:.2}", n as f64 / seconds),
        };
        eprintln!(
            "{{\"prompt_tokens\": {}, \"generated_tokens\": {}, \"prefill_tokens_per_s\": {}, \
             \"decode_tokens_per_s\": {}, \"steps\": {}, \"drafted\": {}, \"accepted\": {}, \
             \"finish_reason\": \"{}\", \"seed\": {}, \"first_token_ms\": {:.1}}}",
            self.prompt_tokens,
            self.generated_tokens,
            rate(if self.new_prompt { self.prompt_tokens } else { 0 }, self.prompt_s),
            rate(self.generated_tokens.saturating_sub(1), self.decode_s),
            self.steps,
            self.drafted,
            self.accepted,
            name(finish),
            self.seed,
            self.prompt_s * 1e3
        );
    }
}

fn name(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Cancelled => "cancelled",
        Finish::Deadline => "deadline",
        Finish::Error => "error",
        Finish::ToolCalls => "tool_calls",
        Finish::StopString => "stop_string",
        Finish::Constraint => "constraint",
        _ => "other",
    }
}
