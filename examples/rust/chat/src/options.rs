//! The command line.
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

pub const HELP: &str = "\
Usage: kimi-chat --deployment FILE (--prompt TEXT | --raw-tokens 1,2,3) [options]

Prints one reply of a Kimi K2.6 model, without its reasoning.

  --deployment FILE   deployment (JSON or binary) or checkpoint folder to load
  --prompt TEXT       what the model replies to
  --system TEXT       system message
  --tools FILE        the model may call the functions that FILE declares, a JSON array as
                      in a chat request. Here are calculate, and search_files in the current
                      folder
  --instant           answer without reasoning first
  --max-tokens N      longest reply in tokens, reasoning included. Default 0: up to the
                      context limit
  --temperature T     0 takes the likeliest token. Default 1.0, with --instant 0.6
  --top-p P           sample from the likeliest tokens that make up P. Default 0.95
  --seed S            reply number i of this run, from 0, uses the seed S + i. Default:
                      a new one
  --raw-tokens 1,2,3  these token ids are the prompt, in place of --prompt and --system,
                      and the reply is printed as ids, its stop token included
  --draft N           tokens drafted per step, 0 to 63, or auto (default)
  --stats             a line of JSON about each reply on stderr
  --help

Exit status: 0 the model ended the reply; 1 an error; 2 a mistake on the command line, or a
text that is not UTF-8; 3 the reply was cut at --max-tokens or the context limit; 141 the
reader of stdout went away.
";

pub enum Prompt {
    Text(String),
    Tokens(Vec<i32>),
}

pub struct Options {
    pub deployment: PathBuf,
    pub prompt: Prompt,
    pub system: Option<String>,
    pub tools: Option<PathBuf>,
    pub thinking: bool,
    pub stats: bool,
    pub sampling: kimi::Options,
}

/// Why there is nothing to do.
pub enum End {
    Help,
    Mistake(String),
}

fn mistake(text: String) -> End {
    End::Mistake(text)
}

/// A number from 0 to max.
fn number<T: FromStr + PartialOrd + Default>(
    name: &str,
    value: &str,
    max: T,
    expected: &str,
) -> Result<T, End> {
    let in_range = |number: &T| *number >= T::default() && *number <= max;
    let number = value.parse().ok().filter(in_range);
    number.ok_or_else(|| mistake(format!("{} is '{}', must be {}", name, value, expected)))
}

fn tokens(name: &str, list: &str) -> Result<Vec<i32>, End> {
    let expected = "token ids with commas between them";
    list.split(',').map(|id| number(name, id, i32::MAX, expected)).collect()
}

fn draft(name: &str, value: &str) -> Result<u32, End> {
    match value {
        "auto" => Ok(kimi::AUTO),
        nodes => number(name, nodes, 63, "from 0 to 63, or auto"),
    }
}

/// Four bytes of noise, short enough to type again.
fn new_seed() -> u64 {
    use std::collections::hash_map::RandomState;
    use std::hash::{BuildHasher, Hasher};
    RandomState::new().build_hasher().finish() & 0xffff_ffff
}

pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Options, End> {
    let (mut deployment, mut prompt, mut system, mut raw_tokens) = (None, None, None, None);
    let (mut thinking, mut stats, mut temperature, mut seed) = (true, false, None, None);
    let mut tools = None;
    let mut sampling = kimi::Options::default();
    while let Some(argument) = arguments.next() {
        let name = argument.to_string_lossy();
        let mut raw = || arguments.next().ok_or_else(|| mistake(format!("{} needs a value", name)));
        let mut value = || {
            let not_text = |_| mistake(format!("{} is not UTF-8", name));
            raw().and_then(|value| value.into_string().map_err(not_text))
        };
        match &*name {
            "--deployment" => deployment = Some(PathBuf::from(raw()?)),
            "--prompt" => prompt = Some(value()?),
            "--system" => system = Some(value()?),
            "--tools" => tools = Some(PathBuf::from(raw()?)),
            "--instant" => thinking = false,
            "--max-tokens" => {
                sampling.max_tokens = number(&name, &value()?, u32::MAX, "from 0 to 4294967295")?
            }
            "--temperature" => {
                temperature = Some(number(&name, &value()?, f32::MAX, "a number, 0 or more")?)
            }
            "--top-p" => sampling.top_p = number(&name, &value()?, 1.0, "a number from 0 to 1")?,
            "--seed" => {
                seed = Some(number(&name, &value()?, u64::MAX, "from 0 to 18446744073709551615")?)
            }
            "--raw-tokens" => raw_tokens = Some(tokens(&name, &value()?)?),
            "--draft" => sampling.draft_budget = draft(&name, &value()?)?,
            "--stats" => stats = true,
            "--help" => return Err(End::Help),
            _ => return Err(mistake(format!("'{}' is not an option; --help lists them", name))),
        }
    }
    sampling.temperature = temperature.unwrap_or(if thinking { 1.0 } else { 0.6 });
    sampling.seed = seed.unwrap_or_else(new_seed);
    let missing = |what: &str| mistake(format!("{} is missing; --help explains", what));
    Ok(Options {
        deployment: deployment.ok_or_else(|| missing("--deployment"))?,
        prompt: raw_tokens
            .map(Prompt::Tokens)
            .or_else(|| prompt.map(Prompt::Text))
            .ok_or_else(|| missing("--prompt"))?,
        system,
        tools,
        thinking,
        stats,
        sampling,
    })
}
