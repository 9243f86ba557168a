//! Alarms as tools for agents: over HTTP, and over the standard input and output of `carillon mcp`.

use std::io::Write;
use std::process::Stdio;

use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use crate::alarms::Program;
use crate::harness::client::client;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;

super::stories!(
    every_tool_does_what_the_same_request_does,
    what_is_wrong_with_a_call_is_a_result_that_says_so,
    a_payload_comes_back_as_the_agent_wrote_it,
    what_is_no_message_is_refused_and_a_session_is_not_kept,
    an_agent_is_served_over_standard_input,
);

const TOOLS: [&str; 9] = [
    "alarm_schedule",
    "alarm_list",
    "alarm_get",
    "alarm_cancel",
    "alarm_history",
    "alarm_stats",
    "alarm_complete",
    "alarm_fail",
    "time_parse",
];

fn message(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

fn hello() -> Value {
    let client = json!({ "name": "test", "version": "1" });
    message(
        "initialize",
        &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }),
    )
}

impl Program {
    /// What is answered to a message of the protocol.
    async fn say(&self, text: String) -> Value {
        let request = client()
            .post(self.node.url("/mcp"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let answer = request.body(text).send().await.expect("the node answers");
        let status = answer.status();
        let text = answer.text().await.expect("the node finishes its answers");
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"))
    }

    /// The result of a tool, called for this program's owner.
    async fn tool(&self, name: &str, mut arguments: Value) -> Value {
        if !matches!(name, "alarm_complete" | "alarm_fail" | "time_parse") {
            arguments["owner"] = json!(self.owner);
        }
        let call = message("tools/call", &json!({ "name": name, "arguments": arguments }));
        self.say(call.to_string()).await["result"].clone()
    }

    /// What a tool answers that must succeed.
    async fn told(&self, name: &str, arguments: Value) -> Value {
        let result = self.tool(name, arguments).await;
        assert_ne!(result["isError"], true, "{name}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        let value = &result["structuredContent"];
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), *value);
        value.clone()
    }
}

async fn every_tool_does_what_the_same_request_does(program: Program) {
    let hook = Hook::start([Conduct::status(202), Conduct::status(202)]).await;
    let welcome = program.say(hello().to_string()).await;
    assert_eq!(welcome["result"]["serverInfo"]["name"], "carillon", "{welcome}");
    let listed = program.say(message("tools/list", &json!({})).to_string()).await;
    let tools = listed["result"]["tools"].as_array().expect("a list");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, TOOLS);

    let soon = json!({ "delay": "1ms", "target": hook.url(), "label": "Tea" });
    let mut triggers = Vec::new();
    for number in 1..=2 {
        let alarm = program.told("alarm_schedule", soon.clone()).await;
        let id = alarm["id"].as_str().expect("an id").to_owned();
        let calls = hook.until(number).await;
        assert_eq!(calls[number - 1].json()["alarm_id"], *id);
        program.firing(&id, "awaiting").await;
        triggers.push((id, calls[number - 1].json()["trigger_id"].clone()));
    }
    let later = json!({ "when": "in 2 hours", "channel": "email", "label": "Tea", "created_by": "an agent" });
    let later = program.told("alarm_schedule", later).await["id"].clone();
    let done = json!({ "trigger_id": triggers[0].1, "result": "good" });
    assert_eq!(program.told("alarm_complete", done).await["outcome"], "completed");
    let failed = json!({ "trigger_id": triggers[1].1, "reason": "no milk" });
    assert_eq!(program.told("alarm_fail", failed).await["outcome"], "failed");

    let got = program.told("alarm_get", json!({ "id": later })).await;
    assert_eq!(
        (&got["created_via"], &got["created_by"]),
        (&json!("mcp"), &json!("an agent"))
    );
    assert_eq!(got, program.alarm(later.as_str().expect("an id")).await);
    for (tool, path) in [
        ("alarm_list", ""),
        ("alarm_history", "/history"),
        ("alarm_stats", "/stats"),
    ] {
        let same = program.get(&format!("/v1/alarms{path}")).await;
        assert_eq!(program.told(tool, json!({})).await, same, "{tool}");
    }
    let of_hook = json!({ "target": hook.url(), "status": "completed" });
    let of_hook = program.told("alarm_history", of_hook).await;
    assert_eq!(of_hook["items"].as_array().map(Vec::len), Some(1), "{of_hook}");
    let cancelled = program.told("alarm_cancel", json!({ "id": later })).await;
    assert_eq!(cancelled["status"], "cancelled");
    let phrase = json!({ "text": "2026-12-01T08:45", "timezone": "Europe/Berlin" });
    assert_eq!(
        program.told("time_parse", phrase).await["at"],
        "2026-12-01T07:45:00Z"
    );
}

async fn what_is_wrong_with_a_call_is_a_result_that_says_so(program: Program) {
    let none = "ffffffffffffffffffffffffffffffff";
    for (tool, arguments, says) in [
        (
            "alarm_schedule",
            json!({ "delay": "soon", "channel": "email", "label": "Tea" }),
            "`delay`: ",
        ),
        (
            "alarm_schedule",
            json!({ "at": "2020-01-01T00:00:00Z", "channel": "email", "label": "Tea" }),
            "`at`: 2020",
        ),
        (
            "alarm_schedule",
            json!({ "when": "yesterday at 5pm", "channel": "email", "label": "Tea" }),
            "`when`: 2",
        ),
        (
            "alarm_schedule",
            json!({ "delay": "1h", "channel": "email", "label": "Tea", "colour": 1 }),
            "colour",
        ),
        ("alarm_list", json!({ "limit": 0 }), "limit=0"),
        ("alarm_get", json!({}), "`id` is missing"),
        ("alarm_get", json!({ "id": none }), none),
        ("alarm_get", json!({ "id": "../stats" }), "../stats"),
        ("alarm_complete", json!({ "trigger_id": none }), "no delivery"),
        (
            "time_parse",
            json!({ "text": "whenever", "timezone": "UTC" }),
            "`whenever`",
        ),
    ] {
        let result = program.tool(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains(says), "{tool}: {text}");
    }
    let unknown = message("tools/call", &json!({ "name": "alarm_eat", "arguments": {} }));
    let unknown = program.say(unknown.to_string()).await;
    let said = unknown["error"]["message"].as_str().expect("a reason");
    assert!(said.contains("no tool `alarm_eat`: use alarm_schedule"), "{said}");
}

async fn a_payload_comes_back_as_the_agent_wrote_it(program: Program) {
    let hook = Hook::start([]).await;
    let payload = r#"{"n": 12345678901234567890123, "big":1e400,  "a": 1.0, "a": "\u00e9"}"#;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"alarm_schedule","arguments":
            {{"owner":"{}","delay":"1ms","target":"{}","payload": {payload}}}}}}}"#,
        program.owner,
        hook.url()
    );
    let answer = program.say(call).await;
    assert_ne!(answer["result"]["isError"], true, "{answer}");

    let body = hook.until(1).await.remove(0).body;

    assert!(body.contains(&format!(r#""payload":{payload}"#)), "{body}");
}

async fn what_is_no_message_is_refused_and_a_session_is_not_kept(program: Program) {
    let ask = async |body: &'static str, kind: &'static str| {
        let request = client()
            .post(program.node.url("/mcp"))
            .header("content-type", kind);
        let answer = request.body(body).send().await.expect("the node answers");
        (answer.status().as_u16(), answer.text().await.expect("a text"))
    };
    for (body, kind, status) in [
        ("{", "application/json", 400),
        ("[]", "application/json", 400),
        ("7", "application/json", 400),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            "text/plain",
            415,
        ),
    ] {
        let (answered, text) = ask(body, kind).await;
        assert_eq!(answered, status, "{body}: {text}");
    }
    // A message that asks for no answer gets none.
    let noted = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(ask(noted, "application/json").await, (202, String::new()));
    for method in [Method::GET, Method::DELETE] {
        let answer = program.ask(method, "/mcp", &[], None).await;
        assert_eq!(answer.status, 405, "{}", answer.body);
    }
}

async fn an_agent_is_served_over_standard_input(program: Program) {
    let url = program.node.url("");
    let lines = [
        hello().to_string(),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        message("tools/list", &json!({})).to_string(),
        "{".to_owned(),
    ];
    let relay = |url: String, lines: Vec<String>| {
        let mut command = program.node.home.command(&["mcp", "--url", &url]);
        tokio::task::spawn_blocking(move || {
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the binary runs");
            let mut input = child.stdin.take().expect("a pipe");
            input
                .write_all((lines.join("\n") + "\n").as_bytes())
                .expect("it reads");
            drop(input);
            child.wait_with_output().expect("it ends with its input")
        })
    };
    let ended = relay(url, lines.to_vec()).await.expect("it does not panic");
    assert!(ended.status.success(), "{ended:?}");
    let said = String::from_utf8(ended.stdout).expect("text");
    let answers: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a message"))
        .collect();
    assert_eq!(answers.len(), 3, "{said}");
    let has = |look: &dyn Fn(&Value) -> bool| answers.iter().any(look);
    assert!(
        has(&|it| it["result"]["serverInfo"]["name"] == "carillon"),
        "{said}"
    );
    let count = |it: &Value| it["result"]["tools"].as_array().map(Vec::len);
    assert!(has(&|it| count(it) == Some(TOOLS.len())), "{said}");
    assert!(has(&|it| it["error"]["code"] == -32700), "{said}");

    let nobody = format!("http://127.0.0.1:{}", crate::harness::free_port());
    let list = message("tools/list", &json!({})).to_string();
    let ended = relay(nobody, vec![list]).await.expect("it does not panic");
    let said: Value = serde_json::from_slice(&ended.stdout).expect("a message");
    assert_eq!(
        (&said["id"], &said["error"]["code"]),
        (&json!(7), &json!(-32000)),
        "{said}"
    );
}
