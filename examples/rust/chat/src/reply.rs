//! One reply: generated step by step, printed as it comes, and measured.
use crate::options::{Options, Prompt};
use kimi::{Engine, Finish, Phase, Session, Step};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' | '\0'..='\x1f' => write!(json, "\\u{:04x}", c as u32).unwrap(),
            _ => json.push(c),
        }
    }
    json + "\""
}

fn append(session: &mut Session, options: &Options) -> kimi::Result<()> {
    let message = |role, text: &str| {
        format!("{{\"role\": \"{}\", \"content\": {}}}", role, json_string(text))
    };
    match &options.prompt {
        Prompt::Tokens(tokens) => session.append(tokens),
        Prompt::Text(prompt) => {
            let mut messages: Vec<_> =
                options.system.iter().map(|text| message("system", text)).collect();
            messages.push(message("user", prompt));
            session.append_chat(&format!(
                "{{\"messages\": [{}], \"thinking\": {}}}",
                messages.join(", "),
                options.thinking
            ))
        }
    }
}

/// What of the reply is printed.
struct Output {
    /// Token ids instead of text.
    ids: bool,
    in_reasoning: bool,
    last: Option<u8>,
}

impl Output {
    fn print(&mut self, text: &str) -> io::Result<()> {
        self.last = text.bytes().last().or(self.last);
        io::stdout().write_all(text.as_bytes())?;
        io::stdout().flush()
    }

    /// The reasoning ends at </think>, or where the model calls a tool without it.
    fn answer<'a>(&mut self, text: &'a str) -> &'a str {
        if !self.in_reasoning {
            return text;
        }
        let begin = text
            .find("</think>")
            .map(|at| at + "</think>".len())
            .or_else(|| text.find("<|tool_calls_section_begin|>"));
        self.in_reasoning = begin.is_none();
        &text[begin.unwrap_or(text.len())..]
    }

    fn show(&mut self, step: &Step) -> io::Result<()> {
        if !self.ids {
            let answer = self.answer(&step.text);
            return self.print(answer);
        }
        for token in &step.tokens {
            let comma = if self.last.is_some() { "," } else { "" };
            self.print(&format!("{}{}", comma, token))?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        match self.last {
            None | Some(b'\n') => Ok(()),
            _ => self.print("\n"),
        }
    }
}

/// What --stats prints.
#[derive(Default)]
struct Stats {
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
    fn count(&mut self, step: &Step, begin: Instant) {
        let elapsed = begin.elapsed().as_secs_f64();
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

    fn print(&self, finish: Finish, seed: u64) {
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
            rate(self.prompt_tokens, self.prompt_s),
            rate(self.generated_tokens.saturating_sub(1), self.decode_s),
            self.steps,
            self.drafted,
            self.accepted,
            name(finish),
            seed,
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

/// Prints the reply and returns why it ended.
pub fn run(options: &Options) -> Result<Finish, Box<dyn Error>> {
    let mut session = Engine::open(&options.deployment)?.session(&options.sampling)?;
    let ids = matches!(options.prompt, Prompt::Tokens(_));
    let mut output = Output { ids, in_reasoning: options.thinking, last: None };
    let mut stats = Stats::default();
    let mut finish = Finish::Error;
    let begin = Instant::now();
    let mut result = append(&mut session, options);
    if result.is_ok() {
        for step in session.steps() {
            match step {
                Ok(step) if step.phase == Phase::Prefill => {}
                Ok(step) => {
                    output.show(&step)?;
                    stats.count(&step, begin);
                    finish = step.finish.unwrap_or(finish);
                }
                Err(error) => result = Err(error),
            }
        }
    }
    output.end()?;
    if options.stats {
        stats.print(finish, options.sampling.seed);
    }
    result.map(|()| finish).map_err(Box::from)
}
