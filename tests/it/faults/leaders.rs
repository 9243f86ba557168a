//! A look at all nodes, several times a second: who says that it leads, and in which term.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::faults::field::Field;
use crate::harness::client::client_builder;

/// Who led in each term.
type Terms = Arc<Mutex<BTreeMap<i64, BTreeSet<i64>>>>;

/// The look.
#[derive(Debug)]
pub struct Leaders {
    terms: Terms,
    looking: JoinHandle<()>,
}

impl Leaders {
    /// Begins to look.
    pub fn watch(field: &Field) -> Self {
        let urls: Vec<String> = field.nodes.iter().map(|node| node.url("/v1/cluster")).collect();
        let terms = Terms::default();
        let theirs = Arc::clone(&terms);
        let looking = tokio::spawn(async move {
            let client = client_builder().timeout(Duration::from_millis(500)).build();
            let client = client.expect("a client needs nothing");
            let mut pace = tokio::time::interval(Duration::from_millis(200));
            loop {
                pace.tick().await;
                for url in &urls {
                    look(&client, url, &theirs).await;
                }
            }
        });
        Self { terms, looking }
    }

    /// Stops, checks that no term had two leaders, and says how many terms there were.
    pub fn assert_one_a_term(self) -> usize {
        self.looking.abort();
        let terms = self.terms.lock().expect("no holder panics").clone();
        assert!(!terms.is_empty(), "nobody was seen to lead");
        assert!(
            terms.values().all(|leaders| leaders.len() == 1),
            "two leaders in a term: {terms:?}"
        );
        terms.len()
    }
}

/// A node that does not answer says nothing.
async fn look(client: &reqwest::Client, url: &str, terms: &Terms) {
    let Ok(answer) = client.get(url).send().await else {
        return;
    };
    let Ok(cluster) = answer.json::<Value>().await else {
        return;
    };
    if let (Some(term), Some(leader)) = (cluster["term"].as_i64(), cluster["leader"].as_i64()) {
        let mut terms = terms.lock().expect("no holder panics");
        terms.entry(term).or_default().insert(leader);
    }
}
