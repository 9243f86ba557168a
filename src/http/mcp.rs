//! Alarms as tools for agents: a server of the Model Context Protocol over HTTP (its "streamable HTTP").
//!
//! Each call of a tool is answered by the very route that answers the same over HTTP ([`calls`](super::calls)), and so bounded
//! and refused there. No session is kept: every request stands for itself, at any node, and its token is looked at each
//! time. `rmcp` speaks the protocol, but does not see what tools are called with: it would read numbers and documents anew,
//! and what an alarm is to give back must stay as it was written.

mod message;
mod result;
mod tools;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::response::Response;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::CallToolRequestParams;
use rmcp::model::CallToolResponse;
use rmcp::model::CallToolResult;
use rmcp::model::Implementation;
use rmcp::model::ListToolsResult;
use rmcp::model::PaginatedRequestParams;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;

use self::message::Message;
use self::tools::Tool;
use super::Shared;
use super::body;
use super::calls::Params;
use super::calls::Routes;
use super::problem::Problem;

/// Bytes of a message at the most: what asks for an alarm over HTTP, and what is around it here.
const LARGEST: usize = 576 * 1024;

/// Bytes of a complaint of the protocol at the most.
const LARGEST_COMPLAINT: usize = 64 * 1024;

/// What an agent is told before it sees the tools.
const INSTRUCTIONS: &str = "Carillon delivers alarms on time and once, also through crashes: by webhook, e-mail or text \
    message, once or by cron. Alarms belong to an owner; where the token is bound to one, leave `owner` out. Instants are RFC \
    3339. To be sure that a call that is repeated makes no second alarm, name the alarm by an `idempotency_key`. What was \
    wrong is said with the field and the cure: put it right and call again.";

/// Answers agents.
#[derive(Clone)]
pub(super) struct Server(StreamableHttpService<Agents, NeverSessionManager>);

impl Server {
    /// Calls of its tools are answered by these routes.
    pub(super) fn new(routes: Routes) -> Self {
        let agents = Agents {
            routes,
            tools: tools::all().into(),
        };
        // Who may call, and from where, is decided by `auth`.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(LARGEST)
            .disable_allowed_hosts();
        Self(StreamableHttpService::new(
            move || Ok(agents.clone()),
            Arc::new(NeverSessionManager::default()),
            config,
        ))
    }
}

/// `POST /mcp`.
pub(super) async fn answer(
    State(shared): State<Shared>,
    Extension(server): Extension<Server>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    body::expect_type(&parts.headers, &["application/json"], "send a JSON-RPC message")?;
    let body = body::Arriving::new(body, &parts.headers, LARGEST, &shared)?;
    let message = Message::read(&body.whole().await?)?;
    let headers = &mut parts.headers;
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Nothing is streamed, whatever the caller is ready for.
    let both = HeaderValue::from_static("application/json, text/event-stream");
    headers.insert(header::ACCEPT, both);
    parts.extensions.insert(Arguments(message.arguments));
    let request = Request::from_parts(parts, Body::from(message.rest));
    passed_on(server.0.handle(request).await.map(Body::new)).await
}

/// An answer of the protocol as it is. Where it is none, as for what is no message, it is a problem as everywhere else.
async fn passed_on(answer: Response) -> Result<Response, Problem> {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if answer.status().is_success() || is_json {
        return Ok(answer);
    }
    let status = match answer.status() {
        // It came as JSON, and is something else than a message.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => StatusCode::BAD_REQUEST,
        status => status,
    };
    let said = to_bytes(answer.into_body(), LARGEST_COMPLAINT).await;
    let said = said.unwrap_or_default();
    let detail = format!(
        "that is no message of the Model Context Protocol: {}",
        String::from_utf8_lossy(&said)
    );
    Ok(Problem::new(status, "bad-request", detail).into_response())
}

/// What a tool is called with, beside the message.
#[derive(Clone)]
struct Arguments(Result<Params, Problem>);

/// What agents find here.
#[derive(Clone)]
struct Agents {
    routes: Routes,
    tools: Arc<[Tool]>,
}

impl ServerHandler for Agents {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let name = Implementation::new("carillon", env!("CARGO_PKG_VERSION")).with_title("Carillon");
        ServerConfig::new(capabilities)
            .with_server_info(name)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|tool| tool.shown.clone());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.iter().find(|tool| tool.shown.name == call.name) else {
            let names: Vec<&str> = self.tools.iter().map(|tool| &*tool.shown.name).collect();
            let cure = format!("there is no tool `{}`: use {}", call.name, names.join(", "));
            return Err(ErrorData::invalid_params(cure, None));
        };
        let parts = context.extensions.get::<Parts>();
        let parts = parts.ok_or_else(|| ErrorData::internal_error("the request is gone", None))?;
        Ok(self.called(tool, parts).await.into())
    }
}

impl Agents {
    async fn called(&self, tool: &Tool, parts: &Parts) -> CallToolResult {
        let arguments = parts.extensions.get::<Arguments>();
        let params = arguments.map_or_else(|| Ok(Params::default()), |it| it.0.clone());
        let answered = match params.and_then(|params| tool.request(params)) {
            Ok(request) => self.routes.clone().answer(&parts.headers, request).await,
            Err(problem) => Err(problem),
        };
        match answered {
            Ok(answered) if answered.is_success => result::success(&answered.body),
            Ok(answered) => result::refusal(&answered.body),
            Err(problem) => result::refused(&problem),
        }
    }
}
