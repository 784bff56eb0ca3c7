//! The names that a module exports.

use oxc_ast::ast::{BindingPatternKind, Declaration, VariableDeclarationKind};

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
