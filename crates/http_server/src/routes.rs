//! One list of handlers makes both the routes and their OpenAPI document. The program serves the routes, and contains
//! the document as a file. Only the test that writes this file needs the code that describes the routes.

use axum::{
    Router,
    handler::Handler,
    routing::{MethodFilter, MethodRouter},
};
use utoipa::{
    __dev::{SchemaReferences, Tags},
    Path,
    openapi::{HttpMethod, OpenApi},
};

/// A value that is made from a list of handlers: a router, or the OpenAPI document.
pub trait Routes<S>: Sized {
    /// Adds a handler. `P` has the handler's method, its path and its description for the document.
    fn route<P, H, T>(self, handler: H) -> Self
    where
        P: Path + SchemaReferences + for<'t> Tags<'t>,
        H: Handler<T, S>,
        T: 'static;
}

impl<S: Clone + Send + Sync + 'static> Routes<S> for Router<S> {
    fn route<P: Path, H: Handler<T, S>, T: 'static>(self, handler: H) -> Self {
        let on = |all: MethodRouter<S>, method| all.on(filter_of(method), handler.clone());
        Router::route(self, &P::path(), P::methods().into_iter().fold(MethodRouter::new(), on))
    }
}

impl<S> Routes<S> for OpenApi {
    fn route<P, H, T>(mut self, _: H) -> Self
    where
        P: Path + SchemaReferences + for<'t> Tags<'t>,
    {
        let mut operation = P::operation();
        operation.tags.get_or_insert_default().extend(P::tags().into_iter().map(str::to_owned));
        let mut schemas = Vec::new();
        P::schemas(&mut schemas);
        self.paths.add_path_operation(P::path(), P::methods(), operation);
        self.components.get_or_insert_default().schemas.extend(schemas);
        self
    }
}

fn filter_of(method: HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
    }
}

/// Adds handlers, by module, to [`Routes`]: `routes!(all, stats: all_stats, stats; why: why)`.
#[macro_export]
macro_rules! routes {
    ($all:expr, $($module:ident: $($handler:ident),+);+ $(;)?) => {
        $crate::pastey::paste! {{
            let all = $all;
            $($(let all = $crate::routes::Routes::route::<$module::[<__path_ $handler>], _, _>(
                all,
                $module::$handler,
            );)+)+
            all
        }}
    };
}
