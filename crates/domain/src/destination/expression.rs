//! `jq` expressions: checks them, and evaluates them.

use jaq_core::{
    Ctx, Exn, Native, Vars,
    compile::Undefined,
    data::JustLut,
    load::{
        self, Arena, File, Loader,
        lex::{self, StrPart, Tok, Token},
        parse,
    },
    native::Fun,
};
use jaq_json::Val;

/// The longest expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 64 * 1024;
/// The deepest recursion allowed, as [`depth`] counts it: jaq parses and compiles recursively.
const DEPTH_MAX: usize = 8000;
/// The size of the stack: enough for [`DEPTH_MAX`] with a margin, even in a debug build, which uses up to 8 KB a step.
const STACK_BYTES: usize = 128 << 20;

/// The variables that an expression can use besides the input `.`, in the order of their values.
pub const VARIABLES: [&str; 5] = ["$id", "$destination", "$sequence", "$key", "$headers"];

/// Functions of jaq's library that expressions may not use: they read the process's environment, clock or time zone,
/// write to its log, or end it.
const LEFT_OUT: [&str; 11] = [
    "env",
    "now",
    "localtime",
    "strflocaltime",
    "debug",
    "debug_empty",
    "stderr",
    "stderr_empty",
    "halt",
    "halt_error",
    "input_filename",
];

type Data = JustLut<Val>;

/// A valid expression.
pub struct Expression {
    filter: jaq_core::Filter<Data>,
}

impl Expression {
    /// Parses an expression. The error describes the first problem.
    pub fn parse(code: &str) -> Result<Expression, String> {
        if code.len() > EXPRESSION_BYTES_MAX {
            return Err(format!("is longer than {EXPRESSION_BYTES_MAX} bytes"));
        }
        let compile = || compile(code);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let compiled = thread.spawn_scoped(scope, compile);
            let compiled = compiled.map_err(|error| format!("could not be checked: {error}"))?;
            compiled.join().unwrap_or_else(|_| Err("jaq cannot read it".into()))
        })
    }

    /// The outputs for `input`; an error is one that the expression raised. `variables` are the values of
    /// [`VARIABLES`]. This sets no limits: it may run forever, and use all memory.
    pub fn outputs(
        &self,
        input: Val,
        variables: [Val; VARIABLES.len()],
    ) -> impl Iterator<Item = Result<Val, String>> {
        let context = Ctx::<Data>::new(&self.filter.lut, Vars::new(variables));
        self.filter.id.run((context, input)).map(|output| output.map_err(raised))
    }
}

fn raised(exception: Exn<Val>) -> String {
    match exception.get_err() {
        Ok(error) => match error.into_val() {
            Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
            other => other.to_string(),
        },
        Err(_) => "it was broken off".into(),
    }
}

fn library() -> impl Iterator<Item = parse::Def<&'static str>> {
    let all = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    all.filter(|definition| !LEFT_OUT.contains(&definition.name))
}

fn natives() -> impl Iterator<Item = Fun<Data>> {
    let all = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    all.filter(|(name, _, _): &(&str, _, Native<Data>)| !LEFT_OUT.contains(name))
}

fn compile(code: &str) -> Result<Expression, String> {
    let tokens = lex::Lexer::new(code).lex();
    if tokens.is_ok_and(|tokens| depth(&tokens, false) > DEPTH_MAX) {
        return Err(format!(
            "is a chain of more than {DEPTH_MAX} names and operators, or nests too deep"
        ));
    }
    let arena = Arena::default();
    let modules = Loader::new(library()).load(&arena, File { code, path: () });
    let modules = modules.map_err(|errors| first(errors, |error| unreadable(code, error)))?;
    load::import(&modules, |_| Err("there are no files to import".into()))
        .map_err(|errors| first(errors, |error| unreadable(code, error)))?;
    let compiler = jaq_core::Compiler::default().with_funs(natives()).with_global_vars(VARIABLES);
    let filter = compiler.compile(modules).map_err(|errors| {
        first(errors, |errors| match errors.first() {
            Some((name, undefined)) => unknown(code, name, undefined),
            None => UNNAMED.into(),
        })
    })?;
    Ok(Expression { filter })
}

/// The text of an error for which jaq gives no reason.
const UNNAMED: &str = "jaq refuses it without a reason";

fn first<P, E>(errors: load::Errors<&str, P, E>, show: impl Fn(E) -> String) -> String {
    errors.into_iter().next().map_or_else(|| UNNAMED.into(), |(_, error)| show(error))
}

fn unreadable(code: &str, error: load::Error<&str>) -> String {
    let shown = match error {
        load::Error::Io(errors) => errors.first().map(|(path, problem)| at(code, path, problem)),
        load::Error::Lex(errors) => errors.first().map(|(expected, found): &lex::Error<&str>| {
            at(code, found, &format!("expected {}", expected.as_str()))
        }),
        load::Error::Parse(errors) => errors.first().map(|(expected, found)| {
            let expected: &parse::Expect<&str> = expected;
            at(code, found, &format!("expected {}", expected.as_str()))
        }),
    };
    shown.unwrap_or_else(|| UNNAMED.into())
}

fn unknown(code: &str, name: &str, undefined: &Undefined) -> String {
    let problem = match undefined {
        Undefined::Filter(arguments) => {
            format!("there is no filter {name} with {arguments} arguments")
        }
        Undefined::Var => {
            format!("there is no variable {name}; there are {}", VARIABLES.join(", "))
        }
        _ => format!("there is no {} {name}", undefined.as_str()),
    };
    at(code, name, &problem)
}

/// A problem with its location: `part` is the part of `code` that has it.
fn at(code: &str, part: &str, problem: &str) -> String {
    let offset = (part.as_ptr() as usize).wrapping_sub(code.as_ptr() as usize);
    let Some(before) = code.get(..offset) else { return problem.to_owned() };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {problem}")
}

/// The deepest recursion for these tokens: one step for each token of the chain, plus the steps of its deepest group.
/// The fields of an object do not add up.
fn depth(tokens: &[Token<&str>], is_object: bool) -> usize {
    let of_chain = |chain: &[Token<&str>]| {
        chain.len() + chain.iter().map(depth_within).max().unwrap_or_default()
    };
    let fields = tokens.split(|token| is_object && token.0 == ",");
    fields.map(of_chain).max().unwrap_or_default()
}

fn depth_within(token: &Token<&str>) -> usize {
    match &token.1 {
        Tok::Block(tokens) => depth(tokens, token.0.starts_with('{')),
        Tok::Str(parts) => {
            let inner = parts.iter().map(|part| match part {
                StrPart::Term(token) => 1 + depth_within(token),
                _ => 0,
            });
            // The parts of an interpolated string are joined by operators.
            parts.len() + inner.max().unwrap_or_default()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> String {
        Expression::parse(code).map(drop).unwrap_err()
    }

    fn outputs(code: &str) -> Vec<Result<String, String>> {
        let variables = ["7", "erp", "1", "k", "h"].map(|text| Val::from(text.to_owned()));
        let expression = Expression::parse(code).unwrap();
        let outputs = expression.outputs(Val::Null, variables);
        outputs.map(|output| output.map(|value| value.to_string())).collect()
    }

    #[test]
    fn variables_are_in_their_order_and_errors_are_words() {
        let all = "[$id, $destination, $sequence, $key, $headers]";
        assert_eq!(outputs(all), [Ok(r#"["7","erp","1","k","h"]"#.into())]);
        assert_eq!(outputs("empty"), []);
        assert_eq!(outputs("1, 2"), [Ok("1".into()), Ok("2".into())]);
        assert_eq!(outputs("error(\"no\")"), [Err("no".into())]);
        assert_eq!(outputs("error({a: 1})"), [Err(r#"{"a":1}"#.into())]);
        assert_eq!(outputs("[] | .a"), [Err("cannot index [] with \"a\"".into())]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        assert_eq!(refused("{a: 1"), "line 1, column 6: expected closing brace");
        assert!(refused(".a\n| )").starts_with("line 2, column 3: "), "{}", refused(".a\n| )"));
        assert_eq!(refused(". | nosuch(1)"), NO_SUCH);
        let variable = refused("$foo");
        assert!(variable.contains("there is no variable $foo"), "{variable}");
        assert!(variable.contains("$sequence"), "{variable}");
        assert!(refused("").starts_with("line 1, column 1: "), "{}", refused(""));
        let long = format!("\"{}\"", "x".repeat(EXPRESSION_BYTES_MAX));
        assert_eq!(refused(&long), "is longer than 65536 bytes");
    }

    const NO_SUCH: &str = "line 1, column 5: there is no filter nosuch with 1 arguments";

    #[test]
    fn the_surroundings_of_the_process_are_out_of_reach() {
        let names = [
            "env",
            "$ENV",
            "$ENV.PATH",
            "now",
            "localtime",
            "strflocaltime(\"%Z\")",
            "halt",
            "halt(1)",
            "halt_error",
            "halt_error(1)",
            "input",
            "inputs",
            "input_filename",
            "input_line_number",
            "debug",
            "debug(1)",
            "stderr",
            "debug_empty",
            "stderr_empty",
            "get_search_list",
            "$__prog_args",
            "modulemeta",
            "repl",
            "$__loc__.file | env",
        ];
        for name in names {
            assert!(refused(name).contains("there is no "), "{name}: {}", refused(name));
        }
        for code in [
            "import \"a\" as a; .",
            "import \"a\" as $a; $a",
            "include \"a\"; .",
            "import \"/etc/passwd\" as $a; .",
        ] {
            let refused = refused(code);
            assert!(refused.contains("import") || refused.contains("module"), "{refused}");
        }
    }

    /// No expression may overflow the stack of the check itself, which would end the whole process.
    #[test]
    fn deep_expressions_are_refused_or_read() {
        let nested = |open: &str, close: &str| {
            let times = EXPRESSION_BYTES_MAX / (open.len() + close.len()).max(1);
            for times in [times - 1, 7000, 3900, 2600, 1900, 1300] {
                let code = format!("{}1{}", open.repeat(times), close.repeat(times));
                let _ = Expression::parse(&code);
            }
        };
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{a:", "}"),
            ("\"\\(", ")\""),
            ("\"\\(", ""),
            ("(", ""),
            ("-", ""),
            ("try ", ""),
            ("1|", ""),
            ("1,", ""),
            ("1+", ""),
            ("1//", ""),
            ("", "?"),
            ("def f:", ";1"),
            ("1|def f:1;", ""),
            ("1 as $x|", ""),
            ("label $x|", ""),
            ("map(", ")"),
            ("if 1 then ", " end"),
            ("reduce 1 as $x(1;", ")"),
            (".[", "]"),
        ] {
            nested(open, close);
        }
        assert!(refused(&"-".repeat(9000)).contains("more than 8000"));
        let fields = (0..3000).map(|n| format!("f{n}: .a.b, ")).collect::<String>();
        assert!(Expression::parse(&format!("{{{fields}}}")).is_ok());
    }
}
