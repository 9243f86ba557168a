//! What is wrong with a file of words: found when it is read, not when the first reminder needs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluent::FluentResource;
use fluent_syntax::ast::CallArguments;
use fluent_syntax::ast::Entry;
use fluent_syntax::ast::Expression;
use fluent_syntax::ast::InlineExpression;
use fluent_syntax::ast::Pattern;
use fluent_syntax::ast::PatternElement;
use fluent_syntax::parser::ParserError;

use crate::delivery::message::words::MESSAGES;

/// A file of words that could be read.
pub(super) struct File {
    /// As the operator knows it.
    pub(super) name: String,
    pub(super) resource: Arc<FluentResource>,
}

impl File {
    /// Reads a file, or says all that cannot be understood in it.
    pub(super) fn read(name: String, text: String) -> Result<Self, Vec<String>> {
        match FluentResource::try_new(text) {
            Ok(resource) => Ok(Self {
                name,
                resource: Arc::new(resource),
            }),
            Err((resource, errors)) => {
                let text = resource.source();
                Err(errors.iter().map(|error| junk(&name, text, error)).collect())
            }
        }
    }

    /// The names that it gives words to: `date`, `-brand`, `date.attribute`.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let named = self.resource.entries().flat_map(|entry| {
            let (name, attributes) = match entry {
                Entry::Message(message) => (message.id.name.to_owned(), &message.attributes),
                Entry::Term(term) => (format!("-{}", term.id.name), &term.attributes),
                _ => return Vec::new(),
            };
            let mut names: Vec<_> = attributes
                .iter()
                .map(|attribute| format!("{name}.{}", attribute.id.name))
                .collect();
            names.push(name);
            names
        });
        named.collect()
    }

    /// All that is wrong with what it says, in a language that has the words `known` besides its own.
    pub(super) fn flaws(&self, known: &BTreeSet<String>) -> Vec<String> {
        let (mut flaws, mut seen) = (Vec::new(), BTreeSet::new());
        let own = self.names();
        let said = self.said();
        for (name, pattern) in self.patterns() {
            let mut complain = |what: String| {
                let line = line_of(self.resource.source(), name);
                flaws.push(format!("`{}`, line {line}, message `{name}`: {what}", self.name));
            };
            if !seen.insert(name) {
                complain("it is there twice".to_owned());
            }
            let is_ours = MESSAGES.iter().any(|(ours, _)| *ours == name);
            if !is_ours && !known.contains(name) && !said.contains(name) {
                complain(format!("nothing says it{}", did_you_mean(name)));
            }
            let mut uses = Uses::default();
            uses.pattern(pattern);
            for variable in uses.variables.iter().filter(|variable| !is_given(name, variable)) {
                complain(format!("there is no `${variable}` here"));
            }
            for other in uses
                .names
                .iter()
                .filter(|it| !own.contains(*it) && !known.contains(*it))
            {
                complain(format!("it says `{other}`, which this language does not have"));
            }
            for function in uses.functions {
                complain(format!("there is no function `{function}`"));
            }
        }
        flaws
    }

    /// The messages with their words.
    fn patterns(&self) -> impl Iterator<Item = (&str, &Pattern<&str>)> {
        self.resource.entries().filter_map(|entry| match entry {
            Entry::Message(message) => Some((message.id.name, message.value.as_ref()?)),
            _ => None,
        })
    }

    /// The names that its messages say.
    fn said(&self) -> BTreeSet<String> {
        let mut uses = Uses::default();
        for (_, pattern) in self.patterns() {
            uses.pattern(pattern);
        }
        uses.names
    }
}

/// Whether `message` can have `$variable`. A message that only others say has whatever those have.
fn is_given(message: &str, variable: &str) -> bool {
    let ours = MESSAGES.iter().find(|(name, _)| *name == message);
    match ours {
        Some((_, given)) => given.contains(&variable),
        None => MESSAGES.iter().any(|(_, given)| given.contains(&variable)),
    }
}

fn did_you_mean(name: &str) -> String {
    let ours = MESSAGES.iter().map(|(ours, _)| *ours);
    let nearest = ours.min_by_key(|ours| strsim::levenshtein(ours, name));
    nearest
        .filter(|ours| strsim::levenshtein(ours, name) <= 2)
        .map(|ours| format!(": did you mean `{ours}`?"))
        .unwrap_or_default()
}

fn junk(name: &str, text: &str, error: &ParserError) -> String {
    // What is missing is missed at the next word, which may be lines later.
    let before = text.get(..error.pos.start).unwrap_or(text).trim_end();
    let line = before.matches('\n').count() + 1;
    let broken = error.slice.clone().and_then(|slice| text.get(slice));
    let message = broken.unwrap_or_default().trim_start();
    let message = message.split([' ', '=', '\n']).next().unwrap_or_default();
    format!("`{name}`, line {line}, message `{message}`: {}", error.kind)
}

/// The line on which a message begins; names begin in the first column.
fn line_of(text: &str, message: &str) -> usize {
    let begins = |line: &str| {
        line.strip_prefix(message)
            .is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().position(begins).map_or(0, |index| index + 1)
}

/// What words make use of.
#[derive(Default)]
struct Uses<'s> {
    variables: BTreeSet<&'s str>,
    names: BTreeSet<String>,
    functions: BTreeSet<&'s str>,
}

impl<'s> Uses<'s> {
    fn pattern(&mut self, pattern: &Pattern<&'s str>) {
        for element in &pattern.elements {
            if let PatternElement::Placeable { expression } = element {
                self.expression(expression);
            }
        }
    }

    fn expression(&mut self, expression: &Expression<&'s str>) {
        match expression {
            Expression::Inline(inline) => self.inline(inline),
            Expression::Select { selector, variants } => {
                self.inline(selector);
                for variant in variants {
                    self.pattern(&variant.value);
                }
            }
        }
    }

    fn inline(&mut self, inline: &InlineExpression<&'s str>) {
        match inline {
            InlineExpression::VariableReference { id } => {
                self.variables.insert(id.name);
            }
            InlineExpression::MessageReference { id, attribute } => {
                let attribute = attribute.as_ref().map(|attribute| format!(".{}", attribute.name));
                self.names
                    .insert(format!("{}{}", id.name, attribute.unwrap_or_default()));
            }
            InlineExpression::TermReference { id, arguments, .. } => {
                self.names.insert(format!("-{}", id.name));
                if let Some(arguments) = arguments {
                    self.arguments(arguments);
                }
            }
            InlineExpression::FunctionReference { id, arguments } => {
                self.functions.insert(id.name);
                self.arguments(arguments);
            }
            InlineExpression::Placeable { expression } => self.expression(expression),
            InlineExpression::StringLiteral { .. } | InlineExpression::NumberLiteral { .. } => {}
        }
    }

    fn arguments(&mut self, arguments: &CallArguments<&'s str>) {
        for argument in &arguments.positional {
            self.inline(argument);
        }
    }
}
