//! The tools, and which operation of the API answers each. What they take is read from the document of the API, so that it is
//! what the routes take.

use axum::body::Body;
use axum::http::Method;
use axum::http::Request;
use rmcp::model::ToolAnnotations;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::http::calls::Params;
use crate::http::document;
use crate::http::problem::Problem;

/// Says of an alarm by what way it was asked for: nobody who calls a tool says that by themselves.
const VIA: &str = "created_via";

/// What a tool does to what is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// Something comes to it, each time, and goes out into the world.
    Adds,
    /// Something is noted; noted again, it is the same.
    Notes,
    /// Something is taken away; taken away again, it is the same.
    TakesAway,
}

/// A tool as it is described.
struct Kind {
    name: &'static str,
    /// The operation of the API that answers it.
    operation: &'static str,
    title: &'static str,
    description: &'static str,
    /// What the tool calls the `id` of the operation's path; nothing where that has none.
    id: &'static str,
    effect: Effect,
}

const KINDS: [Kind; 9] = [
    Kind {
        name: "alarm_schedule",
        operation: "createAlarm",
        title: "Schedule an alarm",
        description: "Schedules an alarm: when it is due, `target` is called (a webhook), or its owner is told by `channel` (email, \
            sms, webhook), which takes a `label` or a `wake_message`. Say when with exactly one of `at`, `delay`, `when` and `cron`. Asked for again with the same \
            `idempotency_key`, it is the same alarm. Answers the alarm; its `id` names it in the other tools.",
        id: "",
        effect: Effect::Adds,
    },
    Kind {
        name: "alarm_list",
        operation: "listAlarms",
        title: "List alarms",
        description: "Lists alarms, newest first, with what each is for, its `status` and when it fires next (`next_fire_at`). Where \
            there are more, `next_cursor` is the `cursor` of the next page.",
        id: "",
        effect: Effect::Reads,
    },
    Kind {
        name: "alarm_get",
        operation: "readAlarm",
        title: "Read an alarm",
        description: "Reads one alarm by its `id`: what it says, its `status`, when it fires next, and the last error.",
        id: "id",
        effect: Effect::Reads,
    },
    Kind {
        name: "alarm_cancel",
        operation: "cancelAlarm",
        title: "Cancel an alarm",
        description: "Cancels an alarm by its `id`, so that it fires no more. This cannot be undone; an alarm that is cancelled \
            already is answered the same.",
        id: "id",
        effect: Effect::TakesAway,
    },
    Kind {
        name: "alarm_history",
        operation: "listFirings",
        title: "What became of firings",
        description: "Lists firings that are over, newest first, each with its outcome, the number of attempts and what was \
            reported. Narrow it with `alarm`, `target`, `channel`, `status` and `since`.",
        id: "",
        effect: Effect::Reads,
    },
    Kind {
        name: "alarm_stats",
        operation: "readAlarmStats",
        title: "How many alarms there are",
        description: "Counts alarms by status, and firings with their failure rate, by channel and by what they call.",
        id: "",
        effect: Effect::Reads,
    },
    Kind {
        name: "alarm_complete",
        operation: "completeDelivery",
        title: "Report that the work is done",
        description: "Reports that what a firing asked for is done. `trigger_id` is the one that its message brought along; say what \
            came of it in `result`. That it was completed is the last word; the same report again changes nothing.",
        id: "trigger_id",
        effect: Effect::Notes,
    },
    Kind {
        name: "alarm_fail",
        operation: "failDelivery",
        title: "Report that the work failed",
        description: "Reports that what a firing asked for has failed. `trigger_id` is the one that its message brought along; say why \
            in `reason`. It is not tried again by that.",
        id: "trigger_id",
        effect: Effect::Notes,
    },
    Kind {
        name: "time_parse",
        operation: "parseTime",
        title: "What a phrase means",
        description: "Says which instant a phrase such as `tomorrow at 5pm` means in a time zone, and all of them where it can mean \
            several. Use it to check a phrase before an alarm is scheduled by it; it schedules nothing.",
        id: "",
        effect: Effect::Reads,
    },
];

/// A tool, and the request that a call of it stands for.
pub(super) struct Tool {
    /// As agents see it.
    pub(super) shown: rmcp::model::Tool,
    method: Method,
    path: String,
    id: &'static str,
    /// What stands in the query though there is a body.
    queried: Vec<String>,
    /// Whether the request says by what way it comes.
    is_signed: bool,
}

impl Tool {
    /// The request that a call with these stands for.
    pub(super) fn request(&self, mut params: Params) -> Result<Request<Body>, Problem> {
        let path = if self.id.is_empty() {
            self.path.clone()
        } else {
            self.path.replace("{id}", &params.take_id(self.id)?)
        };
        if self.is_signed {
            params.set(VIA, to_raw_value("mcp").expect("a text has a JSON form"));
        }
        params.request(self.method.clone(), &path, &self.queried)
    }
}

/// All of them.
pub(super) fn all() -> Vec<Tool> {
    let document = document::read();
    KINDS.iter().map(|kind| read(&document, kind)).collect()
}

fn read(document: &Value, kind: &Kind) -> Tool {
    let (path, method, item) = operation(document, kind.operation);
    let told = &item[method.as_str()];
    let mut schema = Schema::default();
    let mut queried = Vec::new();
    let lists = [&item["parameters"], &told["parameters"]];
    for parameter in lists.iter().filter_map(|list| list.as_array()).flatten() {
        let parameter = resolved(document, parameter);
        let name = parameter["name"].as_str().unwrap_or_default();
        match parameter["in"].as_str() {
            Some("path") => schema.add(kind.id, &parameter),
            Some("query") => {
                schema.add(name, &parameter);
                queried.push(name.to_owned());
            }
            _ => {}
        }
    }
    let body = &told["requestBody"]["content"]["application/json"]["schema"];
    let is_signed = schema.take(resolved(document, body));
    let shown = rmcp::model::Tool::new(kind.name, kind.description, schema.object())
        .with_title(kind.title)
        .with_annotations(annotations(kind.effect));
    Tool {
        shown,
        method: method.to_uppercase().parse().expect("a method"),
        path,
        id: kind.id,
        queried,
        is_signed,
    }
}

/// Where an operation is: its path, its method as it is written there, and all that is at that path.
fn operation(document: &Value, id: &str) -> (String, String, Value) {
    let paths = document["paths"].as_object().expect("a test reads it");
    let found = paths.iter().find_map(|(path, item)| {
        let mut methods = item.as_object()?.iter();
        let (method, _) = methods.find(|(_, told)| told["operationId"] == id)?;
        Some((path.clone(), method.clone(), item.clone()))
    });
    found.expect("a test looks for each")
}

/// A part of the document with what it refers to in place: agents read a tool alone.
fn resolved(document: &Value, part: &Value) -> Value {
    if let Some(reference) = part["$ref"].as_str() {
        let found = document.pointer(reference.trim_start_matches('#'));
        return resolved(document, found.expect("a test follows each"));
    }
    match part {
        Value::Object(members) => {
            let members = members.iter();
            Value::Object(
                members
                    .map(|(name, it)| (name.clone(), resolved(document, it)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(|it| resolved(document, it)).collect(),
        other => other.clone(),
    }
}

/// What a tool takes.
#[derive(Default)]
struct Schema {
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Schema {
    /// A parameter, under this name.
    fn add(&mut self, name: &str, parameter: &Value) {
        let mut property = parameter["schema"].clone();
        property["description"] = parameter["description"].clone();
        self.properties.insert(name.to_owned(), property);
        if parameter["required"] == true {
            self.required.push(name.into());
        }
    }

    /// What a body takes, but for what is not for callers to say; whether there was such a thing. That one of several must be
    /// there is left out: what agents run on takes no such schema, so that the description says it.
    fn take(&mut self, mut body: Value) -> bool {
        let properties = body["properties"].as_object_mut();
        self.properties
            .append(&mut properties.map(std::mem::take).unwrap_or_default());
        self.required
            .extend(body["required"].as_array().into_iter().flatten().cloned());
        self.properties.remove(VIA).is_some()
    }

    fn object(self) -> Map<String, Value> {
        let schema = json!({
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        });
        schema.as_object().expect("it is one").clone()
    }
}

fn annotations(effect: Effect) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(effect == Effect::Reads)
        .destructive(effect == Effect::TakesAway)
        .idempotent(effect != Effect::Adds)
        .open_world(effect == Effect::Adds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_describes_all_that_it_takes_by_itself() {
        for tool in all() {
            let schema = Value::Object((*tool.shown.input_schema).clone());
            let properties = schema["properties"].as_object().unwrap();
            assert!(!properties.is_empty(), "{}", tool.shown.name);
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}: {name}", tool.shown.name);
            }
            let text = schema.to_string();
            assert!(!text.contains("$ref") && !text.contains(VIA), "{text}");
            let required = schema["required"].as_array().unwrap();
            assert!(
                required
                    .iter()
                    .all(|name| properties.contains_key(name.as_str().unwrap())),
                "{text}"
            );
            for word in ["oneOf", "anyOf", "allOf"] {
                assert!(schema.get(word).is_none(), "{}", tool.shown.name);
            }
        }
    }

    #[test]
    fn a_call_is_the_request_that_the_document_describes() {
        let request = |name: &str, params: &str| {
            let tools = all();
            let tool = tools.iter().find(|tool| tool.shown.name == name).unwrap();
            let request = tool.request(serde_json::from_str(params).unwrap());
            request.map(|request| format!("{} {}", request.method(), request.uri()))
        };
        let id = "0123456789abcdef0123456789abcdef";
        let with = |name: &str| format!(r#"{{"{name}": "{id}", "owner": "a/b", "token": "t"}}"#);
        assert_eq!(
            request("alarm_get", &with("id")).unwrap(),
            format!("GET /v1/alarms/{id}?owner=a%2Fb&token=t")
        );
        assert_eq!(
            request("alarm_fail", &with("trigger_id")).unwrap(),
            format!("POST /v1/deliveries/{id}/fail?token=t")
        );
        assert_eq!(
            request("alarm_schedule", r#"{"token": "t"}"#).unwrap(),
            "POST /v1/alarms?"
        );
        assert!(request("alarm_get", r#"{"id": "../stats"}"#).is_err());
        assert!(request("alarm_cancel", "{}").is_err());
    }
}
