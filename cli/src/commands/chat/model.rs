//! `/model`: the model of the daemon, and switching to another.

use hob_api::Status;
use serde_json::{Value, json};

use super::restart;
use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{line, model_words};
use crate::signals::Interrupt;

/// The running model, and the names of the others.
pub fn list(client: &Client) -> Result<String, Failure> {
    let status = client.status()?;
    let models = others(client)?;
    let mut text = model_words(&status);
    let names: Vec<_> = models.iter().map(|(_, name)| line(name, 60)).collect();
    if names.is_empty() {
        text += "\nno other model on this machine";
    } else {
        text += &format!("\nothers: {}", names.join(", "));
    }
    Ok(text)
}

/// Has the daemon run the model and waits until it does. Returns what to say.
pub fn switch(
    name: &str,
    context: &Context,
    interrupt: Option<&Interrupt>,
) -> Result<String, Failure> {
    let client = Client::find(context)?;
    let id = choose(name, others(&client)?)?;
    let before = client.status()?;
    let answer: Value = client.post("/v1/models/switch", &json!({"model": id}))?;
    let name = line(answer["name"].as_str().unwrap_or(&id), 60);
    if answer["restarts"] == false {
        return Ok(format!("{name} runs already"));
    }
    let told = |now: &Status| {
        let is_old = now.started_at == before.started_at
            && now.pid == before.pid
            && now.model == before.model;
        match &now.switch_error {
            // A file that cannot be used is refused without a restart.
            same if is_old && *same == before.switch_error => None,
            Some(error) => Some(line(&error.message, 400)),
            None if now.residency == "loading" => None,
            None => Some(format!("{} runs", line(&now.model, 60))),
        }
    };
    let told = restart::wait(context, interrupt, told);
    Ok(told.unwrap_or_else(|| format!("{name} is still loading")))
}

/// Id and name of each model of this machine that does not run.
fn others(client: &Client) -> Result<Vec<(String, String)>, Failure> {
    let local: Value = client.get("/v1/models/local")?;
    let models = local["data"].as_array().into_iter().flatten();
    let text = |model: &Value, field: &str| model[field].as_str().unwrap_or_default().to_owned();
    let others = models.filter(|model| model["current"] != true);
    Ok(others.map(|model| (text(model, "id"), text(model, "name"))).collect())
}

/// The id of the model whose name begins so; a name that none has is the daemon's to judge.
fn choose(name: &str, models: Vec<(String, String)>) -> Result<String, Failure> {
    let wanted = name.to_lowercase();
    if let Some((id, _)) =
        models.iter().find(|(id, known)| id == name || known.to_lowercase() == wanted)
    {
        return Ok(id.clone());
    }
    let begins = |known: &str| known.to_lowercase().starts_with(&wanted);
    let mut found: Vec<_> = models.into_iter().filter(|(_, known)| begins(known)).collect();
    match found.len() {
        0 => Ok(name.to_owned()),
        1 => Ok(found.remove(0).0),
        _ => {
            let names: Vec<_> = found.into_iter().map(|(_, name)| name).collect();
            Err(Failure::Usage(format!("`{name}` could be {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_chosen_by_the_beginning_of_its_name() {
        let models = || {
            [("/a", "SmolLM2"), ("/b", "SmolVLM"), ("/c", "Qwen3")]
                .map(|(id, name)| (id.to_owned(), name.to_owned()))
                .to_vec()
        };
        assert_eq!(choose("qwen", models()).unwrap(), "/c");
        assert_eq!(choose("smollm2", models()).unwrap(), "/a");
        assert_eq!(choose("/elsewhere.gguf", models()).unwrap(), "/elsewhere.gguf");
        let several = choose("smol", models()).unwrap_err().to_string();
        assert_eq!(several, "`smol` could be SmolLM2, SmolVLM");
    }
}
