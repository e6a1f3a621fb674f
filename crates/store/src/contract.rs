//! The contract of a transition: its keys and arguments, declared once, next to its call. The contract produces the
//! call in Rust, where a missing key or a value of the wrong type does not compile. It also produces the names of
//! keys and arguments in Lua.

use std::fmt::Write;

use bytes::Bytes;
use redis::ToRedisArgs;

use redis_client::CallArgs;

use super::key_types::type_of;

/// The keys, arguments and lists of a transition, by name, in the order of a call.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    /// The name of the transition: its file in `lua/`.
    pub name: &'static str,
    /// The keys of each call.
    pub keys: &'static [&'static str],
    /// The arguments of each call.
    pub args: &'static [&'static str],
    /// The lists, of which a call may have any number of rows.
    pub lists: &'static [List],
}

/// A list of rows, of any number. In a call, the keys of the rows come after the keys of the call. The arguments of
/// the rows come after their number.
#[derive(Debug, Clone, Copy)]
pub struct List {
    /// The name of the list.
    pub name: &'static str,
    /// The keys of each row.
    pub keys: &'static [&'static str],
    /// The arguments of each row.
    pub args: &'static [&'static str],
}

impl List {
    /// Declares a list of rows of this type.
    pub const fn of<R: Row>(name: &'static str) -> List {
        List { name, keys: R::KEYS, args: R::ARGS }
    }
}

/// One row of a list.
pub trait Row {
    /// The names of the row's keys.
    const KEYS: &'static [&'static str] = &[];
    /// The names of the row's arguments.
    const ARGS: &'static [&'static str] = &[];

    /// Adds the keys and arguments of the row to a call.
    fn write(&self, words: &mut CallArgs);
}

/// A row of a list of keys.
impl Row for Vec<u8> {
    const KEYS: &'static [&'static str] = &["key"];

    fn write(&self, words: &mut CallArgs) {
        words.keys.push(self.clone());
    }
}

/// A value that is one argument.
pub trait Arg {
    /// Adds the value to the arguments of a call.
    fn write(&self, args: &mut Vec<Vec<u8>>);
}

macro_rules! args {
    ($($kind:ty),*) => {
        $(impl Arg for $kind {
            fn write(&self, args: &mut Vec<Vec<u8>>) {
                self.write_redis_args(args);
            }
        })*
    };
}

impl Arg for Bytes {
    fn write(&self, args: &mut Vec<Vec<u8>>) {
        args.push(self.to_vec());
    }
}

args!(&str, String, &[u8], Vec<u8>, u8, u16, u32, u64, usize, i64, bool);

/// Makes each of these types a row of a list of values.
macro_rules! values {
    ($($kind:ty),*) => {
        $(impl Row for $kind {
            const ARGS: &'static [&'static str] = &["value"];

            fn write(&self, words: &mut CallArgs) {
                Arg::write(self, &mut words.args);
            }
        })*
    };
}

values!(&str, &[u8], u64);

/// Adds a list to a call: its keys, its length, and its arguments.
pub fn write_list<R: Row>(rows: &[R], words: &mut CallArgs) {
    Arg::write(&rows.len(), &mut words.args);
    rows.iter().for_each(|row| row.write(words));
}

impl Contract {
    /// The lines of Lua that name the keys and arguments: `key_leases`, `lease_ms`. A list becomes a table: of values
    /// if each row has only one value, otherwise of tables (`lane.key`).
    pub fn names(&self) -> String {
        let (keys, args) = (self.keys.len(), self.args.len());
        let mut text = local(self.keys.iter().map(|key| format!("key_{key}")), "KEYS", keys);
        text += &local(self.args.iter().map(|arg| (*arg).to_owned()), "ARGV", args);
        if self.lists.is_empty() {
            return text;
        }
        let names: Vec<&str> = self.lists.iter().map(|list| list.name).collect();
        let tables = vec!["{}"; names.len()].join(", ");
        let _ = writeln!(text, "local {} = {tables}", names.join(", "));
        let _ = writeln!(text, "do local k, a = {keys}, {args}");
        for list in self.lists {
            text += &list.loop_of();
        }
        text + "end\n"
    }

    /// The lines of Lua that check the types of the keys of each call (`lua/include/types.lua`). If a type is wrong,
    /// they end the transition with an error. The lines come after the names.
    pub fn checks(&self) -> String {
        let destination = self.keys.iter().filter(|key| **key == "destination");
        let others = self.keys.iter().filter(|key| **key != "destination");
        let all: Vec<String> = destination
            .map(|_| "check_destination(key_destination)".to_owned())
            .chain(others.filter_map(|key| check_of(key, &format!("key_{key}"))))
            .collect();
        format!("do local wrong = {}\nif wrong then return wrong end end\n", all.join("\nor "))
    }

    /// The lines of Lua that check the types of the keys in lists.
    pub fn checks_of_lists(&self) -> String {
        self.lists.iter().map(List::checks).collect()
    }
}

/// The line that checks a key with this name, if its type is known.
fn check_of(name: &str, value: &str) -> Option<String> {
    type_of(name).map(|kind| format!("check_type('{kind}', {value})"))
}

impl List {
    fn checks(&self) -> String {
        let name = self.name;
        let all: Vec<String> = match (self.keys, self.args) {
            (["key"], []) => check_of(name, "one").into_iter().collect(),
            (keys, _) => {
                keys.iter().filter_map(|key| check_of(key, &format!("one.{key}"))).collect()
            }
        };
        if all.is_empty() {
            return String::new();
        }
        let all = all.join(" or ");
        format!(
            "for _, one in ipairs({name}) do local wrong = {all} if wrong then return wrong end end\n"
        )
    }

    /// The Lua loop that reads the list. It begins after the keys and arguments that are already read.
    fn loop_of(&self) -> String {
        let List { name, keys, args } = self;
        let of = |from: &str, at: &str, names: &[&'static str]| {
            let value =
                |(i, field): (usize, &&'static str)| (*field, format!("{from}[{at} + {}]", i + 1));
            names.iter().enumerate().map(value).collect::<Vec<_>>()
        };
        let all = [of("KEYS", "k", keys), of("ARGV", "a", args)].concat();
        let one = match &all[..] {
            [(_, value)] => value.clone(),
            all => {
                let fields = all.iter().map(|(field, value)| format!("{field} = {value}"));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        };
        let (keys, args) = (keys.len(), args.len());
        format!(
            "a = a + 1\nfor i = 1, ARGV[a] do {name}[i] = {one} k, a = k + {keys}, a + {args} end\n"
        )
    }
}

fn local(names: impl Iterator<Item = String>, from: &str, count: usize) -> String {
    if count == 0 {
        return String::new();
    }
    let values: Vec<String> = (1..=count).map(|number| format!("{from}[{number}]")).collect();
    format!("local {} = {}\n", names.collect::<Vec<_>>().join(", "), values.join(", "))
}

/// The name of a key: the result of the method with that name, or of the expression if there is one.
macro_rules! named {
    ($of:ident $key:ident) => {
        $of.$key()
    };
    ($of:ident $key:ident $named:expr) => {
        $named
    };
}

/// Declares the contract of the transition of this file: `Args`, whose fields are the arguments and lists. Its method
/// `call` takes the values that the names of the keys depend on.
macro_rules! contract {
    (
        $name:ident
        keys($of:ident: $kind:ty $(, $more:ident: $of_more:ty)*) { $($key:ident $(: $named:expr)?),* $(,)? }
        args $(<$life:lifetime>)? { $($(#[$about:meta])* $arg:ident: $value:ty),* $(,)? }
        $(lists { $($(#[$about_list:meta])* $list:ident: $row:ty),* $(,)? })?
    ) => {
        #[doc = concat!("The arguments of `lua/", stringify!($name), ".lua`.")]
        #[derive(Debug, Default)]
        pub struct Args $(<$life>)? {
            $($(#[$about])* pub $arg: $value,)*
            $($($(#[$about_list])* pub $list: Vec<$row>,)*)?
        }

        impl $(<$life>)? Args $(<$life>)? {
            /// The contract of the transition.
            pub const CONTRACT: $crate::contract::Contract = $crate::contract::Contract {
                name: stringify!($name),
                keys: &[$(stringify!($key)),*],
                args: &[$(stringify!($arg)),*],
                lists: &[$($($crate::contract::List::of::<$row>(stringify!($list))),*)?],
            };

            /// The keys and arguments of a call.
            pub fn words(self, $of: $kind $(, $more: $of_more)*) -> redis_client::CallArgs {
                let mut words = redis_client::CallArgs::default();
                $(words.keys.push($crate::contract::named!($of $key $($named)?).into_bytes());)*
                $($crate::contract::Arg::write(&self.$arg, &mut words.args);)*
                $($($crate::contract::write_list(&self.$list, &mut words);)*)?
                words
            }

            pub(crate) fn call<'store>(
                self,
                store: &'store $crate::Store,
                $of: $kind $(, $more: $of_more)*
            ) -> redis_client::ScriptCall<'store> {
                store.inner.scripts.$name.call(self.words($of $(, $more)*))
            }
        }
    };
}

/// Declares a row of a list: its keys and arguments.
macro_rules! row {
    (
        $(#[$about:meta])*
        $name:ident $(<$life:lifetime>)? {
            $([$($key:ident),*])?
            $($(#[$about_arg:meta])* $arg:ident: $value:ty),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        pub struct $name $(<$life>)? {
            $($(#[doc = "A key."] pub $key: String,)*)?
            $($(#[$about_arg])* pub $arg: $value,)*
        }

        impl $(<$life>)? $crate::contract::Row for $name $(<$life>)? {
            const KEYS: &'static [&'static str] = &[$($(stringify!($key)),*)?];
            const ARGS: &'static [&'static str] = &[$(stringify!($arg)),*];

            fn write(&self, words: &mut redis_client::CallArgs) {
                $($(words.keys.push(self.$key.as_bytes().to_vec());)*)?
                $($crate::contract::Arg::write(&self.$arg, &mut words.args);)*
            }
        }
    };
}

pub(crate) use {contract, named, row};

#[cfg(test)]
mod tests {
    use super::*;

    row! {
        /// A lane.
        Lane<'a> {
            [in_progress, ready]
            key: &'a str,
            upto: u64,
        }
    }

    const OF_LANES: Contract = Contract {
        name: "release",
        keys: &["epoch", "owner"],
        args: &["token"],
        lists: &[List::of::<Lane<'_>>("lanes"), List::of::<&str>("bodies")],
    };

    #[test]
    fn lua_names_what_a_call_passes() {
        let expected = "\
local key_epoch, key_owner = KEYS[1], KEYS[2]
local token = ARGV[1]
local lanes, bodies = {}, {}
do local k, a = 2, 1
a = a + 1
for i = 1, ARGV[a] do lanes[i] = {in_progress = KEYS[k + 1], ready = KEYS[k + 2], key = ARGV[a + 1], \
upto = ARGV[a + 2]} k, a = k + 2, a + 2 end
a = a + 1
for i = 1, ARGV[a] do bodies[i] = ARGV[a + 1] k, a = k + 0, a + 1 end
end
";
        assert_eq!(OF_LANES.names(), expected);
    }

    #[test]
    fn lua_checks_the_type_of_each_key() {
        let expected = "\
do local wrong = check_type('hash', key_epoch)
or check_type('string', key_owner)
if wrong then return wrong end end
";
        assert_eq!(OF_LANES.checks(), expected);
        let expected = "\
for _, one in ipairs(lanes) do local wrong = check_type('zset', one.in_progress) or \
check_type('zset', one.ready) if wrong then return wrong end end
";
        assert_eq!(OF_LANES.checks_of_lists(), expected);
    }

    #[test]
    fn list_is_passed_behind_its_length() {
        let mut words = CallArgs::default();
        let lane = Lane { in_progress: "p".into(), ready: "r".into(), key: "a", upto: 7 };
        write_list(&[lane], &mut words);
        write_list(&["1", "2"], &mut words);
        assert_eq!(words.keys, [b"p", b"r"]);
        let args: Vec<&str> = words.args.iter().map(|arg| str::from_utf8(arg).unwrap()).collect();
        assert_eq!(args, ["1", "a", "7", "2", "1", "2"]);
    }
}
