//! What a module exports, as an object's literal.

use std::fmt;

use oxc_ast::ast::{BindingPatternKind, Declaration, VariableDeclarationKind};

#[derive(Default)]
pub struct Exports(Vec<String>);

impl Exports {
    pub fn add(&mut self, name: &str, value: &str) {
        self.0.push(property(name, value));
    }

    /// Adds everything that the module behind the constant `module` exports.
    pub fn add_all(&mut self, module: &str) {
        self.0.push(format!("...{module}"));
    }
}

impl fmt::Display for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ {} }}", self.0.join(", "))
    }
}

/// A property of an object's literal or pattern.
pub fn property(name: &str, value: &str) -> String {
    if name == value { name.to_owned() } else { format!("{name}: {value}") }
}

/// The names that an exported declaration declares.
///
/// # Panics
///
/// At `let` and `var`, whose value may change, and at patterns.
pub fn declared(declaration: &Declaration) -> Vec<String> {
    match declaration {
        Declaration::FunctionDeclaration(function) => {
            function.id.iter().map(|id| id.name.to_string()).collect()
        }
        Declaration::ClassDeclaration(class) => {
            class.id.iter().map(|id| id.name.to_string()).collect()
        }
        Declaration::VariableDeclaration(variables)
            if variables.kind == VariableDeclarationKind::Const =>
        {
            let name = |pattern: &BindingPatternKind| match pattern {
                BindingPatternKind::BindingIdentifier(id) => id.name.to_string(),
                _ => panic!("`export const` of a pattern: write one constant each"),
            };
            variables.declarations.iter().map(|one| name(&one.id.kind)).collect()
        }
        _ => panic!("an export that may change: export a constant, a function or a class"),
    }
}
