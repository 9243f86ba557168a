//! The nodes of the cluster: who is there, and striking one off.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use super::Shared;
use super::problem::At;
use super::problem::Problem;
use crate::cluster::Cluster;
use crate::cluster::MemberStatus;

/// The cluster as this node, or better its leader, sees it.
#[derive(Debug, Serialize)]
pub(super) struct ClusterAnswer {
    /// The name of the cluster.
    cluster: String,
    /// The node that was asked.
    node: u64,
    /// The node whose view this is: the leader, where it can be asked.
    told_by: u64,
    /// The node that leads, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<u64>,
    term: u64,
    members: Vec<Member>,
}

/// One node.
#[derive(Debug, Serialize)]
struct Member {
    #[serde(flatten)]
    status: MemberStatus,
    /// Triggers that it holds, as of its last beat; absent where it shows no sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    armed: Option<u64>,
}

/// `GET /v1/cluster`.
pub(super) async fn list(State(shared): State<Shared>) -> Result<Json<ClusterAnswer>, Problem> {
    let cluster = cluster(&shared)?;
    let status = cluster.status().await;
    let living = shared.seat.living.borrow().clone();
    let member = |status: MemberStatus| {
        let session = living
            .iter()
            .find(|living| living.peer.and_then(|peer| u64::try_from(peer).ok()) == Some(status.id));
        Member {
            armed: session.map(|session| session.pending),
            status,
        }
    };
    Ok(Json(ClusterAnswer {
        cluster: status.cluster,
        node: cluster.id(),
        told_by: status.node,
        leader: status.leader,
        term: status.term,
        members: status.members.into_iter().map(member).collect(),
    }))
}

/// `DELETE /v1/cluster/{id}`: strikes off a node that is gone for good.
pub(super) async fn remove(State(shared): State<Shared>, At(id): At<u64>) -> Result<StatusCode, Problem> {
    let cluster = cluster(&shared)?;
    let members = cluster.status().await.members;
    let Some(member) = members.iter().find(|member| member.id == id) else {
        let known: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
        let detail = format!("there is no node {id}: the members are {}", known.join(", "));
        return Err(Problem::not_found(detail));
    };
    if member.lives == Some(true) {
        let detail = format!("node {id} runs: stop it first, for it must not come back under its number");
        return Err(Problem::conflict(&detail));
    }
    match cluster.remove(id).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(reason) => Err(Problem::conflict(&format!(
            "node {id} was not struck off: {reason}"
        ))),
    }
}

fn cluster(shared: &Shared) -> Result<&Cluster, Problem> {
    let alone =
        || Problem::not_found("this node is alone: nodes share a PostgreSQL, see store.url".to_owned());
    shared.seat.cluster().map(AsRef::as_ref).ok_or_else(alone)
}
