//! What no function body contains, wherever it stands.

use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, Block};

use crate::error::Errors;

struct Attributes<'a>(&'a mut Errors);

impl<'ast> Visit<'ast> for Attributes<'_> {
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let instead = "leave it away: attributes stand on items only";
        self.0.refuse(attribute.span(), "an attribute in a function is refused", instead);
    }
}

/// Refuses attributes on statements and expressions.
pub(super) fn no_attributes(body: &Block, errors: &mut Errors) {
    Attributes(errors).visit_block(body);
}
