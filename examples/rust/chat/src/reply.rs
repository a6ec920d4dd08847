//! One reply: generated step by step, printed as it comes, and measured.
use crate::stats::Stats;
use kimi::{Call, Event, Finish, Phase, Session, Step};
use std::error::Error;
use std::io::{self, Write};

#[derive(Default)]
pub struct Reply {
    pub finish: Option<Finish>,
    pub reasoning: String,
    pub answer: String,
    /// The complete ones.
    pub calls: Vec<Call>,
}

/// What of the reply is printed.
struct Output {
    last: Option<u8>,
}

impl Output {
    fn print(&mut self, text: &str) -> io::Result<()> {
        self.last = text.bytes().last().or(self.last);
        io::stdout().write_all(text.as_bytes())?;
        io::stdout().flush()
    }

    fn print_ids(&mut self, step: &Step) -> io::Result<()> {
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

impl Reply {
    /// What is known of the reply after a step.
    fn take_events(
        &mut self,
        session: &mut Session,
        output: &mut Output,
    ) -> Result<(), Box<dyn Error>> {
        while let Some(event) = session.waiting_event()? {
            match event {
                Event::Reasoning(text) => self.reasoning += &text,
                Event::Content(text) => {
                    output.print(&text)?;
                    self.answer += &text;
                }
                Event::Call(call) => self.calls.push(call),
                _ => {}
            }
        }
        Ok(())
    }

    fn generate(
        &mut self,
        session: &mut Session,
        ids: bool,
        output: &mut Output,
        stats: &mut Stats,
    ) -> Result<(), Box<dyn Error>> {
        while self.finish.is_none() {
            let step = session.step()?;
            if step.phase == Phase::Prefill {
                continue;
            }
            if ids {
                output.print_ids(&step)?;
            } else {
                self.take_events(session, output)?;
            }
            stats.count(&step);
            self.finish = step.finish;
        }
        Ok(())
    }

    /// Replies to what was appended. With `ids`, the tokens' ids are printed instead of text.
    pub fn run(
        &mut self,
        session: &mut Session,
        ids: bool,
        stats: &mut Stats,
    ) -> Result<(), Box<dyn Error>> {
        let mut output = Output { last: None };
        let result = self.generate(session, ids, &mut output, stats);
        output.end()?;
        result
    }
}
