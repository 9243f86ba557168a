//! How a message is put to a provider: the parts of an HTTP request as templates, which the operator owns.
//!
//! The language is MiniJinja, with fuel. What a template is given is in [`Facts`]. In `json` every value is written as
//! JSON; queries, forms and values in `url` are encoded; everything else stays as it is. A field that comes out empty is left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use minijinja::AutoEscape;
use minijinja::Environment;
use minijinja::State;
use minijinja::UndefinedBehavior;
use minijinja::Value;
use minijinja::value::Serde;
use reqwest::Method;
use reqwest::Url;
use reqwest::header::HeaderMap;
use reqwest::header::HeaderName;
use reqwest::header::HeaderValue;
use serde::Serialize;

/// Instructions that a template may take.
const FUEL: u64 = 10_000;

const URL: &str = "url";
const JSON: &str = "json";

/// How values are written in `url`.
const PERCENT: &str = "percent";

/// The templates as they are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form {
    /// Where to, http or https.
    pub url: String,
    /// Whether the request is a GET, which has no body.
    pub is_get: bool,
    /// Fields of the query.
    pub query: BTreeMap<String, String>,
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// Fields of the body as a form.
    pub form: BTreeMap<String, String>,
    /// The body as JSON; empty: none.
    pub json: String,
}

/// What templates are given.
#[derive(Debug, Clone, Serialize)]
pub struct Facts<'a> {
    /// The number in E.164, with its `+`.
    pub to: &'a str,
    /// The same without it.
    pub digits: &'a str,
    /// What the message says.
    pub text: &'a str,
    /// Whether the text needs more than the GSM alphabet.
    pub unicode: bool,
    /// Who it is from, as configured.
    pub from: &'a str,
    /// The trigger's id, 32 hexadecimal digits: the same on every retry.
    pub id: &'a str,
    /// Where the provider reports what became of it; empty where it is not to.
    pub callback: &'a str,
    /// The user name, as configured.
    pub username: &'a str,
    /// What is in the secret file.
    pub secret: &'a str,
}

/// A request, ready to be sent.
#[derive(Debug)]
pub struct Request {
    /// GET or POST.
    pub method: Method,
    /// Where to, with the query.
    pub url: Url,
    /// Headers, that of the body's type included.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<String>,
}

/// What is wrong with a template: the part (`url`, `form.To`), and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {problem}")]
pub struct Wrong {
    /// Which part.
    pub part: String,
    /// What is wrong, without what the template was given.
    pub problem: String,
}

/// The templates, read.
#[derive(Debug, Clone)]
pub struct Writer {
    environment: Environment<'static>,
    form: Form,
}

impl Writer {
    /// Reads the templates, and writes one request with them, so that a mistake shows at the start.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn new(form: Form) -> Result<Self, Vec<Wrong>> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Debug information holds the values of variables.
        environment.set_debug(false);
        environment.set_auto_escape_callback(|name| match name {
            JSON => AutoEscape::Json,
            URL => AutoEscape::Custom(PERCENT.into()),
            _ => AutoEscape::None,
        });
        environment.set_formatter(|out, state, value| {
            if is_address(state) && !value.is_safe() {
                return out
                    .write_str(&percent_encoded(&value.to_string()))
                    .map_err(Into::into);
            }
            minijinja::escape_formatter(out, state, value)
        });
        // Once is enough.
        environment.add_filter("urlencode", |state: &State<'_, '_>, value: &Value| {
            let encoded = minijinja::filters::urlencode(value)?;
            Ok::<_, minijinja::Error>(if is_address(state) {
                Value::from_safe_string(encoded)
            } else {
                Value::from(encoded)
            })
        });
        let mut wrong = Vec::new();
        for (part, template) in form.parts() {
            let name = part.clone();
            if let Err(error) = environment.add_template_owned(part, template) {
                wrong.push(complaint(&name, &error));
            }
        }
        let writer = Self { environment, form };
        if wrong.is_empty() {
            wrong.extend(writer.rehearse("user", "secret", "Carillon").err());
        }
        if wrong.is_empty() { Ok(writer) } else { Err(wrong) }
    }

    /// Writes one request with what is configured beside the templates, and fails where each would.
    ///
    /// # Errors
    /// The part that cannot be written.
    pub fn rehearse(&self, username: &str, secret: &str, from: &str) -> Result<(), Wrong> {
        let facts = Facts {
            to: "+4930123456",
            digits: "4930123456",
            text: "\"Tea\"",
            unicode: true,
            from,
            id: "0123456789abcdef0123456789abcdef",
            callback: "https://example.org/",
            username,
            secret,
        };
        self.write(&facts).map(drop)
    }

    /// Writes the request of one message.
    ///
    /// # Errors
    /// When a template asks for what there is not, or what it makes is no URL, header or JSON.
    pub fn write(&self, facts: &Facts<'_>) -> Result<Request, Wrong> {
        let facts = Value::from(Serde(facts));
        let url = self.url(&facts)?;
        let mut headers = self.headers(&facts)?;
        let mut body = None;
        if !self.form.is_get {
            let (kind, written) = self.body(&facts)?;
            headers.insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static(kind));
            body = Some(written);
        }
        Ok(Request {
            method: if self.form.is_get {
                Method::GET
            } else {
                Method::POST
            },
            url,
            headers,
            body,
        })
    }

    fn url(&self, facts: &Value) -> Result<Url, Wrong> {
        let written = self.part(URL, facts)?;
        let mut url = Url::parse(&written)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| wrong(URL, "write an address such as https://gateway.example.org/send"))?;
        let fields = self.fields("query", &self.form.query, facts)?;
        if !fields.is_empty() {
            url.query_pairs_mut().extend_pairs(fields);
        }
        Ok(url)
    }

    fn headers(&self, facts: &Value) -> Result<HeaderMap, Wrong> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.fields("headers", &self.form.headers, facts)? {
            let part = format!("headers.{name}");
            let name = HeaderName::try_from(name).map_err(|_| wrong(&part, "is no name of a header"))?;
            let value = HeaderValue::try_from(value).map_err(|_| {
                wrong(
                    &part,
                    "holds what no header may, such as the end of a line: write visible ASCII",
                )
            })?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    fn body(&self, facts: &Value) -> Result<(&'static str, String), Wrong> {
        if self.form.json.is_empty() {
            let fields = self.fields("form", &self.form.form, facts)?;
            return Ok(("application/x-www-form-urlencoded", encoded(fields)));
        }
        let written = self.part(JSON, facts)?;
        if serde_json::from_str::<serde::de::IgnoredAny>(&written).is_err() {
            return Err(wrong(
                JSON,
                "makes no JSON: values are quoted already, write {\"to\": {{ to }}}",
            ));
        }
        Ok(("application/json", written))
    }

    fn fields(
        &self,
        section: &str,
        templates: &BTreeMap<String, String>,
        facts: &Value,
    ) -> Result<Vec<(String, String)>, Wrong> {
        let mut fields = Vec::with_capacity(templates.len());
        for name in templates.keys() {
            let value = self.part(&format!("{section}.{name}"), facts)?;
            if !value.is_empty() {
                fields.push((name.clone(), value));
            }
        }
        Ok(fields)
    }

    fn part(&self, part: &str, facts: &Value) -> Result<String, Wrong> {
        let template = self.environment.get_template(part);
        let written = template.and_then(|template| template.render(facts));
        written.map_err(|error| complaint(part, &error))
    }
}

impl Form {
    fn parts(&self) -> Vec<(String, String)> {
        let section = |name: &str, templates: &BTreeMap<String, String>| -> Vec<(String, String)> {
            let parts = templates.iter();
            parts
                .map(|(key, template)| (format!("{name}.{key}"), template.clone()))
                .collect()
        };
        let mut parts = vec![
            (URL.to_owned(), self.url.clone()),
            (JSON.to_owned(), self.json.clone()),
        ];
        parts.extend(section("query", &self.query));
        parts.extend(section("headers", &self.headers));
        parts.extend(section("form", &self.form));
        parts
    }
}

/// Whether it is `url` that is being written.
fn is_address(state: &State<'_, '_>) -> bool {
    matches!(state.auto_escape(), AutoEscape::Custom(name) if name == PERCENT)
}

/// A value that is one part of an address, whatever it holds (RFC 3986 section 2.3).
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            other => write!(encoded, "%{other:02X}").expect("a text can be written to"),
        }
    }
    encoded
}

/// Fields as `application/x-www-form-urlencoded`, which is what queries are written in.
fn encoded(fields: Vec<(String, String)>) -> String {
    let mut url = Url::parse("form:").expect("a scheme is enough");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

fn wrong(part: &str, problem: &str) -> Wrong {
    Wrong {
        part: part.to_owned(),
        problem: problem.to_owned(),
    }
}

/// What the engine says may quote values, the secret among them, and words of the template, which may hold one too.
fn complaint(part: &str, error: &minijinja::Error) -> Wrong {
    let problem = match (error.kind(), error.line()) {
        (minijinja::ErrorKind::SyntaxError, Some(line)) => {
            format!("syntax error in line {line}: write values as {{{{ to }}}}")
        }
        (minijinja::ErrorKind::UndefinedError, _) => {
            "asks for what there is not: there are to, digits, text, unicode, from, id, callback, username and secret"
                .to_owned()
        }
        (kind, _) => kind.to_string(),
    };
    wrong(part, &problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts<'_> = Facts {
        to: "+4930123456",
        digits: "4930123456",
        text: "Tea & \"cake\" {{ secret }}\n=",
        unicode: false,
        from: "Carillon",
        id: "00ff",
        callback: "",
        username: "anna",
        secret: "s3cret",
    };

    fn map(fields: &[(&str, &str)]) -> BTreeMap<String, String> {
        let fields = fields.iter();
        fields
            .map(|(name, template)| ((*name).to_owned(), (*template).to_owned()))
            .collect()
    }

    fn problems(form: Form) -> Vec<String> {
        let wrong = Writer::new(form).unwrap_err();
        wrong.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_form_is_encoded_and_empty_fields_are_left_out() {
        let form = Form {
            url: "https://sms.example.org/{{ username }}/send?v=1".to_owned(),
            query: map(&[("ref", "{{ id }}")]),
            headers: map(&[("X-Key", "{{ secret }}")]),
            form: map(&[
                ("To", "{{ to }}"),
                ("Text", "{{ text }}"),
                ("Callback", "{{ callback }}"),
            ]),
            ..Form::default()
        };
        let request = Writer::new(form).unwrap().write(&FACTS).unwrap();
        assert_eq!(request.method, Method::POST);
        assert_eq!(
            request.url.as_str(),
            "https://sms.example.org/anna/send?v=1&ref=00ff"
        );
        assert_eq!(request.headers["x-key"], "s3cret");
        assert_eq!(
            request.headers["content-type"],
            "application/x-www-form-urlencoded"
        );
        let expected = "Text=Tea+%26+%22cake%22+%7B%7B+secret+%7D%7D%0A%3D&To=%2B4930123456";
        assert_eq!(request.body.as_deref(), Some(expected));
    }

    #[test]
    fn in_json_every_value_is_json() {
        let form = Form {
            url: "https://sms.example.org/".to_owned(),
            json: r#"{"to": [{{ to }}], "text": {{ text }}, "unicode": {{ unicode }}}"#.to_owned(),
            ..Form::default()
        };
        let request = Writer::new(form).unwrap().write(&FACTS).unwrap();
        assert_eq!(request.headers["content-type"], "application/json");
        let body: serde_json::Value = serde_json::from_str(&request.body.unwrap()).unwrap();
        let expected = serde_json::json!({ "to": ["+4930123456"], "text": FACTS.text, "unicode": false });
        assert_eq!(body, expected);
    }

    #[test]
    fn a_get_has_everything_in_its_query() {
        let form = Form {
            url: "http://127.0.0.1:13013/cgi-bin/sendsms".to_owned(),
            is_get: true,
            query: map(&[("to", "{{ to }}"), ("text", "{{ text }}")]),
            ..Form::default()
        };
        let request = Writer::new(form).unwrap().write(&FACTS).unwrap();
        assert_eq!((request.method, request.body), (Method::GET, None));
        let fields: Vec<_> = request.url.query_pairs().into_owned().collect();
        assert_eq!(fields[0], ("text".to_owned(), FACTS.text.to_owned()));
        assert_eq!(fields[1], ("to".to_owned(), FACTS.to.to_owned()));
    }

    #[test]
    fn a_value_in_the_url_is_one_value_whatever_it_holds() {
        let form = Form {
            url: "https://sms.example.org/{{ from }}?to={{ to }}&text={{ text }}&again={{ text|urlencode }}"
                .to_owned(),
            ..Form::default()
        };
        let facts = Facts {
            from: "a/../b",
            text: "1 & to=+88#?%",
            ..FACTS
        };
        let request = Writer::new(form).unwrap().write(&facts).unwrap();
        assert_eq!(request.url.path(), "/a%2F..%2Fb");
        let fields: Vec<_> = request.url.query_pairs().into_owned().collect();
        let expected = [("to", FACTS.to), ("text", facts.text), ("again", facts.text)];
        assert_eq!(
            fields,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn what_cannot_work_is_said_at_the_start_and_never_quotes_a_value() {
        let at = |url: &str| Form {
            url: url.to_owned(),
            ..Form::default()
        };
        assert!(problems(at("gateway"))[0].starts_with("url: write an address"));
        assert!(problems(at("ftp://example.org/"))[0].starts_with("url: write an address"));
        let form = Form {
            form: map(&[("To", "{{ number }}")]),
            ..at("https://example.org/")
        };
        assert!(problems(form)[0].starts_with("form.To: asks for what there is not"));
        let form = Form {
            form: map(&[("To", "{{ to"), ("Text", "{% if %}")]),
            ..at("https://example.org/")
        };
        assert_eq!(problems(form).len(), 2);
        let form = Form {
            json: r#"{"to": "{{ to }}"}"#.to_owned(),
            ..at("https://example.org/")
        };
        assert!(problems(form)[0].starts_with("json: makes no JSON"));
        let form = Form {
            headers: map(&[("X-Key", "{{ secret }}\nX-Other: 1")]),
            ..at("https://example.org/")
        };
        assert_eq!(
            problems(form),
            ["headers.X-Key: holds what no header may, such as the end of a line: write visible ASCII"]
        );
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        let form = Form {
            form: map(&[("To", endless)]),
            ..at("https://example.org/")
        };
        assert!(problems(form)[0].contains("fuel"));
    }
}
