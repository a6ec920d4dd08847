//! The safe interface on the bundled model. KIMI_TEST_DEPLOYMENT names its deployment.
use kimi::{
    Constraint, Engine, Error, Event, Finish, Level, LogitBias, Options, Phase, Session, Status,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const CHAT: &str =
    r#"{"messages": [{"role": "user", "content": "What is DFlash?"}], "thinking": false}"#;
const STORY: &str =
    r#"{"messages": [{"role": "user", "content": "Tell me a story about Mia and a rope."}]}"#;

fn deployment() -> PathBuf {
    std::env::var_os("KIMI_TEST_DEPLOYMENT").expect("KIMI_TEST_DEPLOYMENT").into()
}

fn engine() -> Engine {
    Engine::open(deployment()).unwrap()
}

fn greedy() -> Options {
    Options { temperature: 0.0, ..Options::default() }
}

fn chat(engine: &Engine, options: &Options, json: &str) -> Session {
    let mut session = engine.session(options).unwrap();
    session.append_chat(json).unwrap();
    session
}

fn rest(session: &mut Session) -> String {
    session.text().map(Result::unwrap).collect()
}

#[test]
fn a_reply_comes_in_pieces_and_a_session_keeps_its_engine() {
    let mut session = chat(&engine(), &greedy(), CHAT);
    let pieces: Vec<_> = session.text().map(Result::unwrap).collect();
    assert!(pieces.len() > 1);
    assert!(pieces.concat().starts_with("DFlash is a block diffusion drafter."));
}

#[test]
fn steps_tell_phase_and_finish() {
    let engine = engine();
    let steps: Vec<_> = chat(&engine, &greedy(), CHAT).steps().map(Result::unwrap).collect();
    let last = steps.last().unwrap();
    assert_eq!((last.phase, last.finish), (Phase::Finished, Some(Finish::Stop)));
    assert!(steps[..steps.len() - 1].iter().all(|step| step.finish.is_none()));
    assert_eq!(last.prompt_done, last.prompt_total);
    let tokens: Vec<_> = steps.iter().flat_map(|step| step.tokens.clone()).collect();
    let text: String = steps.iter().map(|step| step.text.as_str()).collect();
    let all = engine.tokenizer().detokenize(&tokens).unwrap();
    assert_eq!(String::from_utf8(all).unwrap(), text + "<|im_end|>");
}

#[test]
fn errors_have_status_and_text() {
    let missing = Engine::open("/nowhere/deployment.json").err().unwrap();
    assert_eq!(missing.status, Status::NotFound);
    assert!(missing.to_string().contains("/nowhere/deployment.json"));
    let _: &dyn std::error::Error = &missing;

    let engine = engine();
    let mut session = engine.session(&greedy()).unwrap();
    let error = session.append(&[1, 2, 99999]).unwrap_err();
    assert_eq!(error.status, Status::InvalidArgument);
    assert!(error.message.contains("99999"));
    let error = engine.session(&Options { temperature: -1.0, ..greedy() }).err().unwrap();
    assert!(error.message.contains("temperature"));
    assert_eq!(error.status.name(), "KIMI_INVALID_ARGUMENT");
    let nul = Engine::open("a\0b").err().unwrap();
    assert_eq!(nul.status, Status::InvalidArgument);
}

#[test]
fn progress_stops_the_loading_and_passes_panics_on() {
    let mut calls = 0;
    let stop = |done, total| {
        assert!(done <= total);
        calls += 1;
        false
    };
    let stopped = Engine::builder(deployment()).progress(stop).open();
    assert_eq!(stopped.err().unwrap().status, Status::Cancelled);
    assert_eq!(calls, 1);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let enough = |_, _| std::panic::panic_any("enough");
        Engine::builder(deployment()).progress(enough).open()
    }));
    assert_eq!(*panic.err().unwrap().downcast::<&str>().unwrap(), "enough");
}

#[test]
fn the_log_lives_as_long_as_the_engine() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let log = move |level, line: &str| {
        sink.lock().unwrap().push((level, line.to_string()));
        panic!("of a log, ends with it");
    };
    let engine = Engine::builder(deployment()).log(log).open().unwrap();
    let told = lines.lock().unwrap().len();
    assert!(told > 0);
    let mut session = chat(&engine, &greedy(), CHAT);
    let canceller = session.canceller();
    drop(engine);
    rest(&mut session);
    drop(session);
    assert_eq!(Arc::strong_count(&lines), 2);
    drop(canceller);
    assert_eq!(Arc::strong_count(&lines), 1);
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), told);
    assert!(lines.iter().all(|(level, _)| *level == Level::Info));
    assert!(lines.iter().any(|(_, line)| line.contains("nano-k2")));
}

/// The system's allocator, and how many bytes of it are in use.
struct Counted(Arc<AtomicUsize>);

unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(layout.size(), Ordering::SeqCst);
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        self.0.fetch_sub(layout.size(), Ordering::SeqCst);
        System.dealloc(piece, layout)
    }
}

#[test]
fn memory_of_the_program_is_given_back() {
    let bytes = Arc::new(AtomicUsize::new(0));
    let engine = Engine::builder(deployment()).allocator(Counted(bytes.clone())).open().unwrap();
    assert_eq!(bytes.load(Ordering::SeqCst) as u64, engine.stats().unwrap().memory_bytes);
    let mut session = chat(&engine, &greedy(), CHAT);
    drop(engine);
    assert!(rest(&mut session).starts_with("DFlash is a block diffusion drafter."));
    assert!(bytes.load(Ordering::SeqCst) > 0);
    drop(session);
    assert_eq!(bytes.load(Ordering::SeqCst), 0);
    assert_eq!(Arc::strong_count(&bytes), 1);
}

#[test]
fn threads_share_engines_and_hand_sessions_on() {
    fn shared<T: Send + Sync>(_: &T) {}
    let engine = engine();
    let mut session = chat(&engine, &greedy(), CHAT);
    shared(&engine);
    shared(&engine.tokenizer());
    shared(&session.canceller());
    let first = session.step().unwrap().text;
    let text = thread::spawn(move || first + &rest(&mut session)).join().unwrap();
    assert_eq!(text, rest(&mut chat(&engine, &greedy(), CHAT)));
}

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "search_files",
    "description": "Find files whose name contains a word", "parameters": {"type": "object",
    "properties": {"word": {"type": "string"}}, "required": ["word"]}}}]"#;

#[test]
fn events_tell_reasoning_calls_and_the_end() {
    let engine = engine();
    let question = r#"{"role": "user", "content": "Find files about lantern."}"#;
    let ask = |messages: &str| {
        format!(r#"{{"messages": [{}], "tools": {}, "thinking": true}}"#, messages, TOOLS)
    };
    let mut session = chat(&engine, &greedy(), &ask(question));
    let events: Vec<_> = session.events().map(Result::unwrap).collect();
    assert!(matches!(&events[0], Event::Reasoning(_)));
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Call(call) => Some(call),
            _ => None,
        })
        .collect();
    assert_eq!(calls.len(), 1);
    assert_eq!((&*calls[0].name, calls[0].index), ("search_files", 0));
    assert_eq!(calls[0].arguments, r#"{"word": "lantern"}"#);
    match events.last() {
        Some(Event::Finished(end)) => assert_eq!((end.finish, end.calls), (Finish::ToolCalls, 1)),
        other => panic!("{:?}", other),
    }
    assert!(session.next_event().unwrap().is_none());

    let reply = format!(
        r#"{{"role": "assistant", "content": "", "tool_calls": [{{"id": "{}", "type": "function",
            "function": {{"name": "search_files",
                          "arguments": "{{\"word\": \"lantern\"}}"}}}}]}},
           {{"role": "tool", "tool_call_id": "{}", "content": "[\"lantern.txt\"]"}}"#,
        calls[0].id, calls[0].id
    );
    session.append_chat(&ask(&[question, &reply].join(","))).unwrap();
    let content = |event: kimi::Result<Event>| match event.unwrap() {
        Event::Content(text) => text,
        _ => String::new(),
    };
    let answer: String = session.events().map(content).collect();
    assert!(answer.starts_with("I found "), "{}", answer);
}

#[test]
fn events_wait_for_steps_that_others_run() {
    let engine = engine();
    let mut session = chat(&engine, &greedy(), CHAT);
    let mut text = String::new();
    let mut finish = None;
    assert!(session.waiting_event().unwrap().is_none());
    while finish.is_none() {
        session.step().unwrap();
        while let Some(event) = session.waiting_event().unwrap() {
            match event {
                Event::Content(piece) => text += &piece,
                Event::Finished(end) => finish = Some(end.finish),
                other => panic!("{:?}", other),
            }
        }
    }
    assert_eq!(text, rest(&mut chat(&engine, &greedy(), CHAT)));
    assert_eq!(finish, Some(Finish::Stop));

    session.append_chat(CHAT).unwrap();
    session.canceller().cancel();
    let events: Vec<_> = session.events().map(Result::unwrap).collect();
    assert!(matches!(&events[..], [Event::Finished(end)] if end.finish == Finish::Cancelled));
}

#[test]
fn another_thread_cancels() {
    let engine = engine();
    let options = Options { ignore_stop: true, draft_budget: 0, ..greedy() };
    let mut session = chat(&engine, &options, STORY);
    let canceller = session.canceller();
    let mut steps = 0;
    for step in session.steps() {
        let step = step.unwrap();
        steps += 1;
        if steps == 3 {
            let canceller = canceller.clone();
            thread::spawn(move || canceller.cancel()).join().unwrap();
        }
        if steps > 3 {
            assert_eq!((step.phase, step.finish), (Phase::Finished, Some(Finish::Cancelled)));
        }
    }
    assert_eq!(steps, 4);
    drop(session);
    canceller.cancel(); // the hold outlives the session
}

#[test]
fn tokens_and_text() {
    let tokenizer = engine().tokenizer();
    let tokens = tokenizer.tokenize("Grüße<|im_end|>", true).unwrap();
    let plain = tokenizer.tokenize("Grüße<|im_end|>", false).unwrap();
    assert!(tokens.len() < plain.len());
    assert_eq!(tokenizer.detokenize(&tokens).unwrap(), "Grüße<|im_end|>".as_bytes());
    assert_eq!(tokenizer.detokenize(&plain).unwrap(), "Grüße<|im_end|>".as_bytes());
    assert!(tokenizer.tokenize("", false).unwrap().is_empty());
    let text = tokenizer.render_chat(CHAT).unwrap();
    assert!(text.contains("<|im_user|>user<|im_middle|>What is DFlash?<|im_end|>"));
    let own = kimi::Tokenizer::open(deployment().parent().unwrap()).unwrap();
    assert_eq!(own.tokenize("Grüße<|im_end|>", true).unwrap(), tokens);
}

#[test]
fn sessions_are_values() {
    let engine = engine();
    let options = Options { seed: 11, ..Options::default() };
    let whole = rest(&mut chat(&engine, &options, STORY));
    let mut session = chat(&engine, &options, STORY);
    let begin: String = session.steps().take(6).map(|step| step.unwrap().text).collect();
    let length = session.length();
    let mut copy = session.fork(None).unwrap();
    let saved = session.to_bytes().unwrap();
    let file = std::env::temp_dir().join(format!("kimi-rust-{}", std::process::id()));
    session.save(&file).unwrap();
    assert_eq!(begin.clone() + &rest(&mut copy), whole);
    assert_eq!(begin.clone() + &rest(&mut engine.restore_bytes(&saved, false).unwrap()), whole);
    assert_eq!(begin.clone() + &rest(&mut engine.restore(&file, false).unwrap()), whole);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(session.length(), length);
    session.truncate(length - 1).unwrap();
    assert_eq!(session.length(), length - 1);
    assert_eq!(session.truncate(length).unwrap_err().status, Status::InvalidArgument);
    assert!(session.stats().unwrap().steps > 0);
}

#[test]
fn a_batch_gives_the_replies_of_its_sessions() {
    let engine = engine();
    let (mut a, mut b) = (chat(&engine, &greedy(), CHAT), chat(&engine, &greedy(), STORY));
    let mut texts = [String::new(), String::new()];
    loop {
        let steps = Session::step_batch(&mut [&mut a, &mut b]).unwrap();
        let steps: Vec<_> = steps.into_iter().map(Result::unwrap).collect();
        for (text, step) in texts.iter_mut().zip(&steps) {
            text.push_str(&step.text);
        }
        if steps.iter().all(|step| step.phase == Phase::Finished) {
            break;
        }
    }
    assert_eq!(texts[0], rest(&mut chat(&engine, &greedy(), CHAT)));
    assert_eq!(texts[1], rest(&mut chat(&engine, &greedy(), STORY)));

    let other = self::engine();
    let mut c = chat(&other, &greedy(), CHAT);
    let error: Error = Session::step_batch(&mut [&mut a, &mut c]).unwrap_err();
    assert_eq!(error.status, Status::InvalidArgument);
}

#[test]
fn steps_in_the_background_give_the_same_reply() {
    let engine = engine();
    let mut session = chat(&engine, &greedy(), CHAT);
    let descriptor = session.wake_fd().unwrap();
    assert_eq!(session.wake_fd().unwrap(), descriptor);
    assert_eq!(session.poll().unwrap_err().status, Status::InvalidArgument);
    let mut text = String::new();
    loop {
        session.submit().unwrap();
        assert_eq!(session.step().unwrap_err().status, Status::InvalidArgument);
        let step = loop {
            match session.poll().unwrap() {
                Some(step) => break step,
                None => thread::yield_now(),
            }
        };
        text += &step.text;
        if step.phase == Phase::Finished {
            break;
        }
    }
    assert_eq!(text, rest(&mut chat(&engine, &greedy(), CHAT)));
}

#[test]
fn a_reply_has_a_deadline_and_log_probabilities() {
    let engine = engine();
    let options = Options { deadline_ms: 1, ignore_stop: true, ..greedy() };
    let last = chat(&engine, &options, STORY).steps().last().unwrap().unwrap();
    assert_eq!(last.finish, Some(Finish::Deadline));

    let mut session = chat(&engine, &Options { logprobs: 2, ..greedy() }, CHAT);
    for step in session.steps() {
        let step = step.unwrap();
        assert_eq!(step.logprobs.len(), 3 * step.tokens.len());
        for (token, row) in step.tokens.iter().zip(step.logprobs.chunks(3)) {
            assert_eq!((row[0].token, row[0]), (*token, row[1])); // greedy: the likeliest
            assert!(row[1].logprob >= row[2].logprob && row[1].logprob <= 0.0);
        }
    }
    let statistics = session.stats().unwrap();
    assert_eq!((statistics.replies, statistics.prompt_reused), (1, 0));
}

#[test]
fn replies_are_constrained() {
    let engine = engine();
    let mut session = engine.session(&greedy()).unwrap();
    session.set_constraint(Constraint::Regex("(yes|no)!")).unwrap();
    session.append_chat(CHAT).unwrap();
    let text = rest(&mut session);
    assert!(text == "yes!" || text == "no!", "{}", text);
    let error = session.set_constraint(Constraint::JsonSchema("{")).unwrap_err();
    assert_eq!(error.status, Status::InvalidArgument);

    session.set_constraint(Constraint::None).unwrap();
    session.set_stop_strings(&["block diffusion", "never"]).unwrap();
    session.append_chat(CHAT).unwrap();
    let steps: Vec<_> = session.steps().map(Result::unwrap).collect();
    assert_eq!(steps.last().unwrap().finish, Some(Finish::StopString));
    let text: String = steps.iter().map(|step| step.text.as_str()).collect();
    assert_eq!(text, "DFlash is a ");

    session.set_stop_strings(&[]).unwrap();
    let first = engine.tokenizer().tokenize("DFlash", false).unwrap()[0];
    session.set_logit_bias(&[LogitBias { token: first, bias: -100.0 }]).unwrap();
    session.append_chat(CHAT).unwrap();
    assert!(!rest(&mut session).starts_with("DFlash"));
}

#[test]
fn what_the_library_tells() {
    assert_eq!(kimi::version(), env!("CARGO_PKG_VERSION"));
    assert!(kimi::has_feature("cpu"));
    assert!(!kimi::has_feature("none of this name"));
    let estimate = Engine::estimate(deployment(), 0).unwrap();
    assert!(estimate.devices >= 1 && estimate.kv_token_bytes > 0);
    let engine = engine();
    rest(&mut chat(&engine, &greedy(), CHAT));
    let statistics = engine.stats().unwrap();
    assert!(statistics.pages >= statistics.pages_free && statistics.passes > 0);
    engine.defragment().unwrap();
    let file = std::env::temp_dir().join(format!("kimi-rust-trace-{}", std::process::id()));
    engine.save_trace(&file).unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains("rank 0"));
    std::fs::remove_file(&file).unwrap();
}
