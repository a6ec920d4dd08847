//! The conversation: a prompt, and replies until one calls no more tools.
use crate::options::{Options, Prompt};
use crate::reply::Reply;
use crate::stats::Stats;
use crate::tools;
use kimi::{Call, Constraint, Engine, Finish, Session};
use std::error::Error;
use std::fmt::Write;
use std::fs;

pub fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' | '\0'..='\x1f' => write!(json, "\\u{:04x}", c as u32).unwrap(),
            _ => json.push(c),
        }
    }
    json + "\""
}

fn message(role: &str, text: &str, more: &str) -> String {
    format!("{{\"role\": \"{}\", \"content\": {}{}}}", role, json_string(text), more)
}

/// A reply that calls tools, as a message.
fn calling_message(reply: &Reply) -> String {
    let call = |call: &Call| {
        format!(
            "{{\"type\": \"function\", \"id\": {}, \"function\": {{\"name\": {}, \"arguments\": {}}}}}",
            json_string(&call.id),
            json_string(&call.name),
            json_string(&call.arguments)
        )
    };
    let calls: Vec<_> = reply.calls.iter().map(call).collect();
    let more = format!(
        ", \"reasoning_content\": {}, \"tool_calls\": [{}]",
        json_string(&reply.reasoning),
        calls.join(", ")
    );
    message("assistant", &reply.answer, &more)
}

struct Conversation<'a> {
    options: &'a Options,
    /// JSON of the declarations, with --tools.
    tools: Option<String>,
    messages: Vec<String>,
}

impl Conversation<'_> {
    fn append(&self, session: &mut Session) -> kimi::Result<()> {
        if let Prompt::Tokens(tokens) = &self.options.prompt {
            return session.append(tokens);
        }
        session.append_chat(&format!(
            "{{\"messages\": [{}], \"tools\": {}, \"thinking\": {}}}",
            self.messages.join(", "),
            self.tools.as_deref().unwrap_or("null"),
            self.options.thinking
        ))
    }

    /// Reply number i.
    fn reply(&self, session: &mut Session, i: u64) -> Result<Reply, Box<dyn Error>> {
        let mut sampling = self.options.sampling.clone();
        sampling.seed = sampling.seed.wrapping_add(i);
        session.set_options(&sampling)?;
        let ids = matches!(self.options.prompt, Prompt::Tokens(_));
        let mut stats = Stats::new(sampling.seed, i == 0);
        let mut reply = Reply::default();
        let result = self
            .append(session)
            .map_err(Box::from)
            .and_then(|()| reply.run(session, ids, &mut stats));
        if self.options.stats {
            stats.print(reply.finish.unwrap_or(Finish::Error));
        }
        result.map(|()| reply)
    }

    fn answer_calls(&mut self, reply: &Reply) {
        self.messages.push(calling_message(reply));
        for call in &reply.calls {
            let id = format!(", \"tool_call_id\": {}", json_string(&call.id));
            self.messages.push(message("tool", &tools::run(call), &id));
        }
    }
}

/// Prints the replies and returns why the last one ended.
pub fn run(options: &Options) -> Result<Finish, Box<dyn Error>> {
    let tools = options.tools.as_ref().map(fs::read_to_string).transpose()?;
    let mut session = Engine::open(&options.deployment)?.session(&options.sampling)?;
    if let Some(tools) = &tools {
        session.set_constraint(Constraint::Tools(tools))?;
    }
    let mut messages: Vec<_> =
        options.system.iter().map(|text| message("system", text, "")).collect();
    if let Prompt::Text(prompt) = &options.prompt {
        messages.push(message("user", prompt, ""));
    }
    let mut conversation = Conversation { options, tools, messages };
    let mut i = 0;
    loop {
        let reply = conversation.reply(&mut session, i)?;
        let finish = reply.finish.unwrap_or(Finish::Error);
        if finish != Finish::ToolCalls || conversation.tools.is_none() || reply.calls.is_empty() {
            return Ok(finish);
        }
        conversation.answer_calls(&reply);
        i += 1;
    }
}
