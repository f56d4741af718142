//! The two macros of the language, read into expressions.

use proc_macro2::Ident;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, LitStr, Macro, Pat, Token};

use crate::names::LOG_LEVELS;

/// `matches!(value, pattern if guard)`.
#[derive(Clone, Debug)]
pub struct Matches {
    /// What is matched.
    pub value: Expr,
    /// Against what.
    pub pattern: Pat,
    /// Under which condition.
    pub guard: Option<Expr>,
}

impl Parse for Matches {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let value = input.parse()?;
        input.parse::<Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        let guard = match input.parse::<Option<Token![if]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        input.parse::<Option<Token![,]>>()?;
        Ok(Self { value, pattern, guard })
    }
}

const LOG_FORM: &str = "this is no `log!`: write `log!(cx, info, \"text {}\", value)`";

/// `log!(cx, info, "text {}", value)`.
#[derive(Clone, Debug)]
pub struct Log {
    /// The context.
    pub cx: Expr,
    /// `error`, `warn`, `info` or `debug`.
    pub level: Ident,
    /// The text, with one `{}` a value.
    pub text: LitStr,
    /// The values.
    pub values: Vec<Expr>,
}

impl Parse for Log {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let form = |error: syn::Error| syn::Error::new(error.span(), LOG_FORM);
        let cx = input.parse()?;
        input.parse::<Token![,]>().map_err(form)?;
        let level: Ident = input.parse().map_err(form)?;
        input.parse::<Token![,]>().map_err(form)?;
        let text: LitStr = input.parse().map_err(form)?;
        let values = match input.parse::<Option<Token![,]>>()? {
            Some(_) => {
                Punctuated::<Expr, Token![,]>::parse_terminated(input)?.into_iter().collect()
            }
            None => Vec::new(),
        };
        let log = Self { cx, level, text, values };
        log.check()?;
        Ok(log)
    }
}

impl Log {
    fn check(&self) -> syn::Result<()> {
        let refuse = |span, message: String| Err(syn::Error::new(span, message));
        if !LOG_LEVELS.contains(&self.level.to_string().as_str()) {
            let message = format!("no log level `{}`: write {}", self.level, LOG_LEVELS.join(", "));
            return refuse(self.level.span(), message);
        }
        let text = self.text.value();
        let places = text.matches("{}").count();
        if text.replace("{}", "").contains(['{', '}']) {
            let message = "only `{}` stands for a value in `log!`: write the value after the text";
            return refuse(self.text.span(), message.to_owned());
        }
        if places != self.values.len() {
            let given = self.values.len();
            let message =
                format!("`log!` has {places} `{{}}` and {given} values: write one value for each");
            return refuse(self.text.span(), message);
        }
        Ok(())
    }
}

/// Reads `matches!(…)`.
///
/// # Errors
/// The macro does not have that form.
pub fn matches(mac: &Macro) -> syn::Result<Matches> {
    mac.parse_body()
}

/// Reads `log!(…)`.
///
/// # Errors
/// The macro does not have that form, or its values do not fit its text.
pub fn log(mac: &Macro) -> syn::Result<Log> {
    mac.parse_body()
}
